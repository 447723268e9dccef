// client-go on a server that is named by a kubeconfig: informers and leader election, as controllers use them.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const objects = 50

func must(err error, doing string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", doing, err)
		os.Exit(1)
	}
}

func until(ctx context.Context, what string, holds func() bool) {
	must(wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil }), what)
}

func watchObjects(ctx context.Context, client kubernetes.Interface) {
	var added, updated, deleted atomic.Int64
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	maps := factory.Core().V1().ConfigMaps()
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	must(err, "listening")
	api := client.CoreV1().ConfigMaps("default")
	make := func(i int) {
		_, err := api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("c-%d", i), Labels: map[string]string{"app": "informer"}}}, metav1.CreateOptions{})
		must(err, "creating")
	}
	for i := range objects / 2 { // there before it begins, and after
		make(i)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for i := objects / 2; i < objects; i++ {
		make(i)
	}
	until(ctx, "hearing of all that came", func() bool { return added.Load() == objects })
	listed, err := maps.Lister().ConfigMaps("default").List(labels.SelectorFromSet(labels.Set{"app": "informer"}))
	must(err, "listing what it knows")
	for _, one := range listed {
		changed := one.DeepCopy()
		changed.Data = map[string]string{"color": "blue"}
		_, err := api.Update(ctx, changed, metav1.UpdateOptions{})
		must(err, "updating")
	}
	until(ctx, "hearing of all that changed", func() bool { return updated.Load() == objects })
	must(api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=informer"}), "deleting")
	until(ctx, "hearing of all that went", func() bool { return deleted.Load() == objects })
}

func elect(ctx context.Context, client kubernetes.Interface, name string, leads func(string)) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "leader", Namespace: "default"},
		Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name}}
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second,
		RetryPeriod: 200 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads(name) }, OnStoppedLeading: func() {}}})
	return cancel
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err, "reading the kubeconfig")
	config.QPS, config.Burst = -1, -1
	client, err := kubernetes.NewForConfig(config)
	must(err, "making a client")
	ctx := context.Background()
	watchObjects(ctx, client)

	leaders := make(chan string, 2)
	stop := elect(ctx, client, "one", func(name string) { leaders <- name })
	if name := <-leaders; name != "one" {
		must(fmt.Errorf("%s leads", name), "the first")
	}
	defer elect(ctx, client, "two", func(name string) { leaders <- name })()
	stop()
	select {
	case name := <-leaders:
		if name != "two" {
			must(fmt.Errorf("%s leads", name), "the second")
		}
	case <-time.After(time.Minute):
		must(fmt.Errorf("nobody leads"), "the second")
	}
	fmt.Println("all of it")
}
