// Command reference is what `make bench-operator` holds the operator against: a plain operator on controller-runtime
// that makes the same children of a GPTService by server-side apply and reports the same kind of status.
//
// It does what its kind of operator commonly does, and no more: typed objects from caches that are selected by label,
// one reconciler for all watches, a child applied only when the hash of what was applied last is another.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const statusOwner = client.FieldOwner(manager + "-status")

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var service GPTService
	if err := r.Get(ctx, request.NamespacedName, &service); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !service.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	wanted, err := children(&service)
	if err != nil {
		return ctrl.Result{}, err
	}
	var failures []error
	for _, one := range wanted {
		if err := r.ensure(ctx, &service, one); err != nil {
			failures = append(failures, fmt.Errorf("%T %s: %w", one.live, one.name, err))
		}
	}
	return ctrl.Result{}, errors.Join(append(failures, r.report(ctx, &service, errors.Join(failures...)))...)
}

// ensure applies a child unless the cache has it as it was last applied.
func (r *reconciler) ensure(ctx context.Context, service *GPTService, one child) error {
	err := r.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: one.name}, one.live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		if !metav1.IsControlledBy(one.live, service) {
			return errors.New("the name is taken by an object of somebody else")
		}
		if one.live.GetAnnotations()[appliedHash] == one.hash {
			return nil
		}
	}
	return r.Apply(ctx, one.wanted, client.FieldOwner(manager), client.ForceOwnership)
}

// report writes the status if it says something new.
func (r *reconciler) report(ctx context.Context, service *GPTService, failure error) error {
	var deployment appsv1.Deployment
	err := r.Get(ctx, client.ObjectKeyFromObject(service), &deployment)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	status := computeStatus(service, &deployment, failure)
	if equality.Semantic.DeepEqual(status, service.Status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	object.SetGroupVersionKind(groupVersion.WithKind(kind))
	object.SetNamespace(service.Namespace)
	object.SetName(service.Name)
	object.SetUID(service.UID)
	configuration := client.ApplyConfigurationFromUnstructured(object)
	return client.IgnoreNotFound(r.Status().Apply(ctx, configuration, statusOwner, client.ForceOwnership))
}

func computeStatus(service *GPTService, deployment *appsv1.Deployment, failure error) GPTServiceStatus {
	seen := deployment.Status
	wanted := service.Spec.Replicas
	current := deployment.UID != "" && seen.ObservedGeneration >= deployment.Generation
	complete := failure == nil && current &&
		seen.UpdatedReplicas == wanted && seen.Replicas == wanted && seen.ReadyReplicas == wanted
	status := GPTServiceStatus{
		ObservedGeneration: service.Generation,
		Phase:              "Progressing",
		Replicas:           seen.Replicas,
		ReadyReplicas:      seen.ReadyReplicas,
		AvailableReplicas:  seen.AvailableReplicas,
		UpdatedReplicas:    seen.UpdatedReplicas,
		Selector:           labels.SelectorFromSet(selector(service)).String(),
		Endpoint:           fmt.Sprintf("http://%s.%s.svc", service.Name, service.Namespace),
	}
	reason, message := "PodsStarting", fmt.Sprintf("%d of %d replicas are ready", seen.ReadyReplicas, wanted)
	switch {
	case failure != nil:
		status.Phase, reason, message = "Degraded", "ChildFailed", failure.Error()
	case wanted == 0 && complete:
		status.Phase, reason, message = "Stopped", "Stopped", "spec.replicas is 0"
	case complete:
		status.Phase, reason = "Ready", "AllReplicasReady"
	}
	status.Conditions = append(status.Conditions, service.Status.Conditions...)
	for _, condition := range []struct {
		name  string
		holds bool
	}{
		{"Accepted", true},
		{"Available", seen.AvailableReplicas > 0},
		{"Progressing", !complete && failure == nil},
		{"Degraded", failure != nil},
		{"Ready", complete && wanted > 0},
	} {
		value := metav1.ConditionFalse
		if condition.holds {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: condition.name, Status: value, Reason: reason, Message: message, ObservedGeneration: service.Generation,
		})
	}
	return status
}

// filled says when the caches are, whoever leads: `make bench-operator` waits for that line.
type filled struct {
	cache.Cache
}

func (f filled) Start(ctx context.Context) error {
	if f.WaitForCacheSync(ctx) {
		ctrl.Log.Info("caches filled")
	}
	return nil
}

func (filled) NeedLeaderElection() bool { return false }

func main() {
	flag.StringVar(&runtimeImage, "image", "localhost/gptservice-standin:dev", "runtime image of the pods")
	leaseNamespace := flag.String("lease-namespace", "gptservice-system", "namespace of the Lease")
	elect := flag.Bool("leader-elect", true, "work only while holding the Lease")
	json := flag.Bool("json", false, "speak JSON in place of protobuf, which a proxy cannot tell apart event by event")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*leaseNamespace, *elect, *json); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(leaseNamespace string, elect, json bool) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.UserAgent = manager
	if json {
		config.ContentType = "application/json"
	}
	if err := addToScheme(scheme.Scheme); err != nil {
		return err
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(map[string]string{managedBy: manager})}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}:         ours,
				&appsv1.ControllerRevision{}: ours,
				&corev1.Service{}:            ours,
				&corev1.ConfigMap{}:          ours,
			},
		},
		LeaderElection:                elect,
		LeaderElectionID:              manager,
		LeaderElectionNamespace:       leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(filled{mgr.GetCache()}); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&GPTService{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.ControllerRevision{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).
		Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
