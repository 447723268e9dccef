// Creates Deployments and Services and patches statuses, as bench/write.cc does, with nothing but
// Go's own net/http over HTTP/2 and encoding/json.
//
// With --answers=parse every answer becomes a tree of values, as it does in kube::Client; with
// --answers=discard it is only read to its end.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"sigs.k8s.io/yaml"

	"cadre.test/bench/peers/measure"
)

type object = map[string]any
type list = []any

func main() {
	kubeconfig := flag.String("kubeconfig", "", "where the cluster is")
	ns := flag.String("ns", "bench", "the namespace to make and write in")
	count := flag.Int("count", 1000, "how many of each kind")
	inFlight := flag.Int("in-flight", 16, "how many at once")
	answers := flag.String("answers", "parse", "parse or discard")
	flag.Parse()

	c := connect(*kubeconfig)
	c.parse = *answers == "parse"
	c.send("POST", "/api/v1/namespaces", "application/json",
		object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": *ns}})

	name := func(i int) string { return fmt.Sprintf("web-%d", i) }
	group := func(i int) string { return fmt.Sprintf("g%d", i%10) }
	deployments := "/apis/apps/v1/namespaces/" + *ns + "/deployments"
	section := measure.Begin()
	inLanes(*count, *inFlight, func(i int) {
		c.send("POST", deployments, "application/json", deployment(*ns, name(i), group(i)))
	})
	inLanes(*count, *inFlight, func(i int) {
		c.send("POST", "/api/v1/namespaces/"+*ns+"/services", "application/json", service(*ns, name(i), group(i)))
	})
	inLanes(*count, *inFlight, func(i int) {
		c.send("PATCH", deployments+"/"+name(i)+"/status", "application/merge-patch+json", statusPatch())
	})
	seconds, cpuSeconds := section.End()
	measure.Print(object{"writes": 3 * *count, "seconds": seconds, "cpu_seconds": cpuSeconds,
		"peak_bytes": measure.Size("status", "VmHWM")})
}

// inLanes does all of them, so many at a time.
func inLanes(total, lanes int, do func(number int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(total); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	group.Wait()
}

type client struct {
	http   *http.Client
	server string
	token  string
	parse  bool
}

func connect(kubeconfig string) *client {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     string `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	text, err := os.ReadFile(kubeconfig)
	if err == nil {
		err = yaml.Unmarshal(text, &config)
	}
	if err != nil {
		measure.Fail("reading the kubeconfig: %v", err)
	}
	ca, err := base64.StdEncoding.DecodeString(config.Clusters[0].Cluster.CA)
	if err != nil {
		measure.Fail("reading the CA: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := &client{server: config.Clusters[0].Cluster.Server}
	for _, user := range config.Users {
		if user.User.Token != "" {
			c.token = user.User.Token
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	c.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{RootCAs: roots},
		Protocols:          protocols,
		DisableCompression: true,
	}}
	return c
}

func (c *client) send(method, path, contentType string, body object) {
	text, err := json.Marshal(body)
	if err != nil {
		measure.Fail("%v", err)
	}
	request, err := http.NewRequest(method, c.server+path+"?fieldManager=cadre", bytes.NewReader(text))
	if err != nil {
		measure.Fail("%v", err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "peer")
	request.Header.Set("Authorization", "Bearer "+c.token)
	answer, err := c.http.Do(request)
	if err != nil {
		measure.Fail("%v", err)
	}
	defer answer.Body.Close()
	if answer.ProtoMajor != 2 || answer.StatusCode >= 300 {
		measure.Fail("%s %s: %s %s", method, path, answer.Proto, answer.Status)
	}
	if !c.parse {
		_, err = io.Copy(io.Discard, answer.Body)
	} else {
		var made object
		if text, err = io.ReadAll(answer.Body); err == nil {
			err = json.Unmarshal(text, &made)
		}
	}
	if err != nil {
		measure.Fail("%s %s: %v", method, path, err)
	}
}

func metadata(ns, name, group string) object {
	return object{"name": name, "namespace": ns, "labels": object{
		"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "bench", "group": group}}
}

func deployment(ns, name, group string) object {
	labels := object{"app.kubernetes.io/name": name}
	container := object{
		"name":  "web",
		"image": "registry.example/web:1.2.3",
		"args":  list{"--port=8080", "--log-level=info"},
		"env": list{object{"name": "MODE", "value": "production"},
			object{"name": "REGION", "value": "north"}},
		"ports": list{object{"name": "http", "containerPort": 8080}},
		"resources": object{"requests": object{"cpu": "100m", "memory": "64Mi"},
			"limits": object{"memory": "128Mi"}},
		"readinessProbe": object{"httpGet": object{"path": "/ready", "port": "http"}, "periodSeconds": 5},
	}
	pod := object{"metadata": object{"labels": labels}, "spec": object{
		"containers": list{container}, "securityContext": object{"runAsNonRoot": true}}}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(ns, name, group),
		"spec": object{"replicas": 3, "selector": object{"matchLabels": labels}, "template": pod}}
}

func service(ns, name, group string) object {
	return object{"apiVersion": "v1", "kind": "Service", "metadata": metadata(ns, name, group),
		"spec": object{"clusterIP": "None", "selector": object{"app.kubernetes.io/name": name},
			"ports": list{object{"name": "http", "port": 80, "targetPort": "http"}}}}
}

func statusPatch() object {
	condition := func(kind, reason, message string) object {
		return object{"type": kind, "status": "True", "reason": reason, "message": message,
			"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}
	}
	return object{"status": object{"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3,
		"readyReplicas": 3, "availableReplicas": 3, "conditions": list{
			condition("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
			condition("Progressing", "NewReplicaSetAvailable", "The new replica set has successfully progressed.")}}}
}
