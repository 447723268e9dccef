// An operator as people write them with controller-runtime: for each MCPServer a Deployment, a Service
// and a status, the same that `cadre operator` makes. Typed objects, the default cache, CreateOrUpdate
// and a status update; children are compared so that defaults of the server are no difference, and a
// status that is as it should be is not written. Only the client's limit of 20 requests per second is
// taken away: it would be all that is measured.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"cadre.test/bench/peers/measure"
)

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	server := &MCPServer{}
	if err := r.Get(ctx, request.NamespacedName, server); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !server.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	name := metav1.ObjectMeta{Name: "mcpserver-" + server.Name, Namespace: server.Namespace}
	deployment := &appsv1.Deployment{ObjectMeta: name}
	wantDeployment := deploymentSpec(server)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		setLabels(deployment, server)
		if !equality.Semantic.DeepDerivative(wantDeployment, deployment.Spec) {
			deployment.Spec = wantDeployment
		}
		return controllerutil.SetControllerReference(server, deployment, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}

	service := &corev1.Service{ObjectMeta: name}
	wantService := serviceSpec(server)
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		setLabels(service, server)
		if !equality.Semantic.DeepDerivative(wantService, service.Spec) {
			service.Spec.Type = wantService.Type
			service.Spec.Selector = wantService.Selector
			service.Spec.Ports = wantService.Ports
		}
		return controllerutil.SetControllerReference(server, service, r.scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}

	before := server.Status
	server.Status = MCPServerStatus{Conditions: copyConditions(before.Conditions)}
	setStatus(server, deployment)
	if equality.Semantic.DeepEqual(before, server.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, server)
}

func selector(server *MCPServer) map[string]string {
	return map[string]string{"app": "mcpserver", "mcpserver": server.Name}
}

func labels(server *MCPServer) map[string]string {
	all := selector(server)
	all["app.kubernetes.io/name"] = "mcpserver"
	all["app.kubernetes.io/instance"] = server.Name
	all["app.kubernetes.io/part-of"] = "kaos"
	all["app.kubernetes.io/managed-by"] = "peer"
	all["peer.test/owner-uid"] = string(server.UID)
	return all
}

func setLabels(object client.Object, server *MCPServer) {
	all := object.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range labels(server) {
		all[key] = value
	}
	object.SetLabels(all)
}

func deploymentSpec(server *MCPServer) appsv1.DeploymentSpec {
	source := ""
	if server.Spec.Config.Tools != nil {
		source = server.Spec.Config.Tools.FromString
	}
	probe := func(period, timeout, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8000)}},
			PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures,
			SuccessThreshold: 1, // the default, said because DeepDerivative takes no 0 for unset
		}
	}
	pod := corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), RunAsGroup: ptr.To[int64](65532),
			FSGroup:        ptr.To[int64](65532),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:            "mcp-server",
			Image:           "cadre-mcp-python:latest",
			ImagePullPolicy: corev1.PullIfNotPresent,
			Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 8000, Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{
				{Name: "MCP_TOOLS_STRING", Value: strings.ReplaceAll(source, "$(", "$$(")},
				{Name: "LOG_LEVEL", Value: "INFO"},
				{Name: "HOME", Value: "/tmp"},
			},
			StartupProbe:   probe(1, 3, 300),
			ReadinessProbe: probe(5, 3, 2),
			LivenessProbe:  probe(10, 3, 3),
			VolumeMounts:   []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	text, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	hash := sha256.Sum256(text)
	return appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selector(server)},
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: ptr.To(intstr.FromString("25%")), MaxUnavailable: ptr.To(intstr.FromString("25%")),
			},
		},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      labels(server),
				Annotations: map[string]string{"kaos.tools/pod-spec-hash": hex.EncodeToString(hash[:8])},
			},
			Spec: pod,
		},
	}
}

func serviceSpec(server *MCPServer) corev1.ServiceSpec {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(8000), Protocol: corev1.ProtocolTCP}
	}
	return corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: selector(server),
		Ports:    []corev1.ServicePort{port("http", 8000), port("http80", 80)},
	}
}

func setStatus(server *MCPServer, deployment *appsv1.Deployment) {
	status := &server.Status
	rollout := deployment.Status
	wanted := ptr.Deref(deployment.Spec.Replicas, 1)
	status.ObservedGeneration = server.Generation
	status.Runtime = "python-string"
	status.Endpoint = fmt.Sprintf("http://%s.%s.svc.cluster.local:8000", deployment.Name, server.Namespace)
	status.Deployment = &DeploymentStatus{Replicas: rollout.Replicas, ReadyReplicas: rollout.ReadyReplicas,
		AvailableReplicas: rollout.AvailableReplicas, UpdatedReplicas: rollout.UpdatedReplicas,
		Conditions: []metav1.Condition{}}
	for _, one := range rollout.Conditions {
		status.Deployment.Conditions = append(status.Deployment.Conditions, metav1.Condition{
			Type: string(one.Type), Status: metav1.ConditionStatus(one.Status), Reason: one.Reason,
			Message: one.Message, LastTransitionTime: one.LastTransitionTime})
	}
	status.Message = fmt.Sprintf("Deployment ready replicas: %d/%d", rollout.ReadyReplicas, wanted)
	status.Ready = rollout.ObservedGeneration >= deployment.Generation && rollout.UpdatedReplicas >= wanted &&
		rollout.Replicas == rollout.UpdatedReplicas && rollout.AvailableReplicas >= wanted

	condition := func(kind string, holds bool, reason, message string) {
		value := metav1.ConditionFalse
		if holds {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason,
			Message: message, ObservedGeneration: server.Generation})
	}
	condition("Accepted", true, "Valid", "")
	condition("RuntimeResolved", true, "BuiltIn", "")
	condition("ConfigReady", true, "NotNeeded", "")
	if status.Ready {
		status.Phase = "Ready"
		condition("WorkloadReady", true, "Available", status.Message)
		condition("Ready", true, "Ready", status.Message)
	} else {
		status.Phase = "Pending"
		condition("WorkloadReady", false, "RollingOut", status.Message)
		condition("Ready", false, "RollingOut", status.Message)
	}
	condition("ToolsDiscovered", false, "NotYet", "the server is not ready yet")
}

func check(err error) {
	if err != nil {
		measure.Fail("%v", err)
	}
}

func main() {
	workers := flag.Int("workers", 1, "objects at a time; controller-runtime's default is 1")
	metrics := flag.String("metrics-bind-address", "0", "where; 0 for nowhere")
	health := flag.String("health-probe-bind-address", "0", "where; 0 for nowhere")
	flag.Parse()
	ctrl.SetLogger(klog.Background())

	config := ctrl.GetConfigOrDie()
	config.QPS = -1
	config.UserAgent = "peer-operator"
	check(schemeBuilder.AddToScheme(scheme.Scheme))
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme.Scheme,
		Metrics:                server.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *health,
	})
	check(err)
	check(ctrl.NewControllerManagedBy(mgr).
		For(&MCPServer{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: *workers}).
		Complete(&reconciler{mgr.GetClient(), mgr.GetScheme()}))

	ctx := ctrl.SetupSignalHandler()
	var informers []cache.Informer
	for _, kind := range []client.Object{&MCPServer{}, &appsv1.Deployment{}, &corev1.Service{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		check(err)
		informers = append(informers, informer)
	}
	check(mgr.AddReadyzCheck("synced", func(*http.Request) error {
		for _, informer := range informers {
			if !informer.HasSynced() {
				return fmt.Errorf("not everything that is watched has been seen yet")
			}
		}
		return nil
	}))
	check(mgr.Start(ctx))
}
