package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// MCPServer, as far as this operator serves it: tools from source.
type MCPServer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MCPServerSpec   `json:"spec"`
	Status            MCPServerStatus `json:"status,omitempty"`
}

type MCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPServer `json:"items"`
}

type MCPServerSpec struct {
	Type   string          `json:"type,omitempty"`
	Config MCPServerConfig `json:"config,omitempty"`
}

type MCPServerConfig struct {
	Tools *Tools `json:"tools,omitempty"`
}

type Tools struct {
	FromString string `json:"fromString,omitempty"`
}

type MCPServerStatus struct {
	Phase              string             `json:"phase,omitempty"`
	Ready              bool               `json:"ready"`
	Message            string             `json:"message,omitempty"`
	Endpoint           string             `json:"endpoint,omitempty"`
	Runtime            string             `json:"runtime,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Deployment         *DeploymentStatus  `json:"deployment,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type DeploymentStatus struct {
	Replicas          int32              `json:"replicas"`
	ReadyReplicas     int32              `json:"readyReplicas"`
	AvailableReplicas int32              `json:"availableReplicas"`
	UpdatedReplicas   int32              `json:"updatedReplicas"`
	Conditions        []metav1.Condition `json:"conditions"`
}

var schemeBuilder = &scheme.Builder{GroupVersion: schema.GroupVersion{Group: "kaos.tools", Version: "v1alpha1"}}

func init() { schemeBuilder.Register(&MCPServer{}, &MCPServerList{}) }

// What a generator would write.

func (s *MCPServer) DeepCopyInto(out *MCPServer) {
	*out = *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if s.Spec.Config.Tools != nil {
		tools := *s.Spec.Config.Tools
		out.Spec.Config.Tools = &tools
	}
	s.Status.DeepCopyInto(&out.Status)
}

func (s *MCPServerStatus) DeepCopyInto(out *MCPServerStatus) {
	*out = *s
	if s.Deployment != nil {
		deployment := *s.Deployment
		deployment.Conditions = copyConditions(s.Deployment.Conditions)
		out.Deployment = &deployment
	}
	out.Conditions = copyConditions(s.Conditions)
}

func copyConditions(conditions []metav1.Condition) []metav1.Condition {
	if conditions == nil {
		return nil
	}
	copied := make([]metav1.Condition, len(conditions))
	for i := range conditions {
		conditions[i].DeepCopyInto(&copied[i])
	}
	return copied
}

func (s *MCPServer) DeepCopyObject() runtime.Object {
	out := new(MCPServer)
	s.DeepCopyInto(out)
	return out
}

func (l *MCPServerList) DeepCopyObject() runtime.Object {
	out := &MCPServerList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]MCPServer, len(l.Items))
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
