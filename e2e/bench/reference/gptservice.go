package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const kind = "GPTService"

var groupVersion = schema.GroupVersion{Group: "ai.example.com", Version: "v1"}

// GPTService has those fields of the API that the benchmark sets.
type GPTService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GPTServiceSpec   `json:"spec"`
	Status            GPTServiceStatus `json:"status,omitempty"`
}

type GPTServiceSpec struct {
	Model                 string     `json:"model"`
	Replicas              int32      `json:"replicas"`
	MaxInflightRequests   int32      `json:"maxInflightRequests,omitempty"`
	StartupTimeoutSeconds int32      `json:"startupTimeoutSeconds,omitempty"`
	DrainTimeoutSeconds   int32      `json:"drainTimeoutSeconds,omitempty"`
	Resources             *Resources `json:"resources,omitempty"`
	ServiceAccountName    string     `json:"serviceAccountName,omitempty"`
}

type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
}

type GPTServiceStatus struct {
	Phase              string             `json:"phase,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	AvailableReplicas  int32              `json:"availableReplicas"`
	UpdatedReplicas    int32              `json:"updatedReplicas"`
	Selector           string             `json:"selector,omitempty"`
	Endpoint           string             `json:"endpoint,omitempty"`
}

type GPTServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GPTService `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &GPTService{}, &GPTServiceList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

func (in *GPTService) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Spec.Resources != nil {
		requests := make(map[string]string, len(in.Spec.Resources.Requests))
		for name, quantity := range in.Spec.Resources.Requests {
			requests[name] = quantity
		}
		out.Spec.Resources = &Resources{Requests: requests}
	}
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

func (in *GPTServiceList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]GPTService, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*GPTService)
	}
	return &out
}
