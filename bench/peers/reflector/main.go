// Brings the ConfigMaps of a namespace into memory with client-go's reflector and a store of its own.
// Whether it asks for a stream is client-go's feature WatchListClient, set in the environment.
package main

import (
	"context"
	"flag"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"cadre.test/bench/peers/measure"
)

// A store that tells when it has the whole picture: the reflector replaces its contents once, however
// it got them.
type store struct {
	cache.Store
	transform cache.TransformFunc
	synced    chan struct{}
}

func (s *store) Replace(items []interface{}, version string) error {
	err := s.Store.Replace(items, version)
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
	return err
}

// Transformer is asked for by the reflector, which then applies it to a streamed list as it comes.
func (s *store) Transformer() cache.TransformFunc { return s.transform }

func dropManagedFields(item interface{}) (interface{}, error) {
	if object, err := meta.Accessor(item); err == nil {
		object.SetManagedFields(nil)
	}
	return item, nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "where the cluster is")
	ns := flag.String("ns", "bench", "the namespace")
	managedFields := flag.String("managed-fields", "keep", "keep, or drop them before they are stored")
	list := flag.String("list", "whole", "whole: as the reflector asks for it, which the server answers in one piece; "+
		"pages: asks in a way that gets 500 at a time")
	encoding := flag.String("encoding", "default", "default: what client-go chooses, protobuf; or json")
	compression := flag.String("compression", "default", "default: what client-go chooses, large lists are compressed; or off")
	quiet := flag.Int("quiet-seconds", 0, "how long to sit still before memory is measured")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		measure.Fail("%v", err)
	}
	config.QPS = -1
	if *encoding == "json" {
		config.ContentType = "application/json"
	}
	config.DisableCompression = *compression == "off"
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		measure.Fail("%v", err)
	}
	configMaps := clientset.CoreV1().ConfigMaps(*ns)

	ctx := context.Background()
	objects := &store{synced: make(chan struct{})}
	if *managedFields == "drop" {
		objects.transform = dropManagedFields
		objects.Store = cache.NewStore(cache.MetaNamespaceKeyFunc, cache.WithTransformer(dropManagedFields))
	} else {
		objects.Store = cache.NewStore(cache.MetaNamespaceKeyFunc)
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (kruntime.Object, error) {
			if *list == "pages" && options.ResourceVersion == "0" {
				options.ResourceVersion = "" // with "0" the server passes over the limit
			}
			return configMaps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return configMaps.Watch(ctx, options)
		},
	}
	section := measure.Begin()
	go cache.NewReflector(source, &corev1.ConfigMap{}, objects, 0).RunWithContext(ctx)
	<-objects.synced
	seconds, cpuSeconds := section.End()
	time.Sleep(time.Duration(*quiet) * time.Second)
	figures := map[string]any{"seconds": seconds, "cpu_seconds": cpuSeconds,
		"resident_bytes":      measure.Size("status", "VmRSS"),
		"peak_bytes":          measure.Size("status", "VmHWM"),
		"private_dirty_bytes": measure.Size("smaps_rollup", "Private_Dirty")}

	count, bytes := 0, 0
	for _, item := range objects.List() {
		count++
		for _, value := range item.(*corev1.ConfigMap).Data {
			bytes += len(value)
		}
	}
	figures["objects"], figures["data_bytes"] = count, bytes
	measure.Print(figures)
	runtime.KeepAlive(objects)
}
