package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apps "k8s.io/client-go/applyconfigurations/apps/v1"
	core "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	manager     = "gptservice-reference"
	managedBy   = "app.kubernetes.io/managed-by"
	nameLabel   = "gptservice-name"
	revisionKey = "ai.example.com/revision"
	appliedHash = "ai.example.com/applied-hash"
)

var runtimeImage string

// child is one object that a GPTService has.
type child struct {
	name   string
	wanted runtime.ApplyConfiguration
	hash   string
	live   client.Object
}

func selector(service *GPTService) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "gptservice", nameLabel: service.Name}
}

func labelsOf(service *GPTService) map[string]string {
	found := selector(service)
	found[managedBy] = manager
	return found
}

func owner(service *GPTService) *metaac.OwnerReferenceApplyConfiguration {
	return metaac.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind(kind).WithName(service.Name).WithUID(service.UID).
		WithController(true)
}

// children returns what a GPTService of the benchmark has, in the order in which it is written.
func children(service *GPTService) ([]child, error) {
	template := podTemplate(service)
	key, err := hash(template)
	if err != nil {
		return nil, err
	}
	key = key[:12]
	template.WithLabels(map[string]string{revisionKey: key})
	name, namespace := service.Name, service.Namespace
	limits, err := json.Marshal(map[string]int32{"maxInflightRequests": service.Spec.MaxInflightRequests})
	if err != nil {
		return nil, err
	}
	kept, err := json.Marshal(map[string]any{"template": template, "image": runtimeImage})
	if err != nil {
		return nil, err
	}
	configMap := core.ConfigMap(name+"-limits", namespace).
		WithLabels(labelsOf(service)).WithOwnerReferences(owner(service)).
		WithData(map[string]string{"limits.json": string(limits)})
	revision := apps.ControllerRevision(name+"-"+key, namespace).
		WithLabels(labelsOf(service)).WithLabels(map[string]string{revisionKey: key}).WithOwnerReferences(owner(service)).
		WithData(runtime.RawExtension{Raw: kept}).WithRevision(1)
	deployment := apps.Deployment(name, namespace).
		WithLabels(labelsOf(service)).WithOwnerReferences(owner(service)).
		WithSpec(deploymentSpec(service, template))
	front := core.Service(name, namespace).
		WithLabels(labelsOf(service)).WithOwnerReferences(owner(service)).
		WithSpec(core.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithSelector(selector(service)).
			WithPorts(port(80)))
	pods := core.Service(name+"-pods", namespace).
		WithLabels(labelsOf(service)).WithOwnerReferences(owner(service)).
		WithSpec(core.ServiceSpec().WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			WithSelector(selector(service)).WithPorts(port(8000)).WithPublishNotReadyAddresses(false))
	return hashed(
		child{name: name + "-limits", wanted: configMap, live: &corev1.ConfigMap{}},
		child{name: name + "-" + key, wanted: revision, live: &appsv1.ControllerRevision{}},
		child{name: name, wanted: deployment, live: &appsv1.Deployment{}},
		child{name: name, wanted: front, live: &corev1.Service{}},
		child{name: name + "-pods", wanted: pods, live: &corev1.Service{}},
	)
}

// hashed puts onto each child the hash of what is applied of it.
func hashed(found ...child) ([]child, error) {
	for i := range found {
		digest, err := hash(found[i].wanted)
		if err != nil {
			return nil, err
		}
		note := map[string]string{appliedHash: digest}
		switch wanted := found[i].wanted.(type) {
		case *core.ConfigMapApplyConfiguration:
			wanted.WithAnnotations(note)
		case *apps.ControllerRevisionApplyConfiguration:
			wanted.WithAnnotations(note)
		case *apps.DeploymentApplyConfiguration:
			wanted.WithAnnotations(note)
		case *core.ServiceApplyConfiguration:
			wanted.WithAnnotations(note)
		default:
			return nil, fmt.Errorf("no annotations on a %T", wanted)
		}
		found[i].hash = digest
	}
	return found, nil
}

func hash(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:16]), nil
}

func port(number int32) *core.ServicePortApplyConfiguration {
	return core.ServicePort().WithName("http").WithPort(number).WithProtocol(corev1.ProtocolTCP).
		WithAppProtocol("http").WithTargetPort(intstr.FromInt32(8000))
}

func deploymentSpec(service *GPTService, template *core.PodTemplateSpecApplyConfiguration) *apps.DeploymentSpecApplyConfiguration {
	rolling := apps.RollingUpdateDeployment().
		WithMaxSurge(intstr.FromInt32(1)).WithMaxUnavailable(intstr.FromInt32(0))
	return apps.DeploymentSpec().
		WithReplicas(service.Spec.Replicas).
		WithSelector(metaac.LabelSelector().WithMatchLabels(selector(service))).
		WithStrategy(apps.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(rolling)).
		WithProgressDeadlineSeconds(service.Spec.StartupTimeoutSeconds + 120).
		WithRevisionHistoryLimit(5).
		WithTemplate(template)
}

func podTemplate(service *GPTService) *core.PodTemplateSpecApplyConfiguration {
	spec := service.Spec
	pod := core.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithSecurityContext(core.PodSecurityContext().WithRunAsNonRoot(true).WithFSGroup(65532).
			WithSeccompProfile(core.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithTerminationGracePeriodSeconds(int64(spec.DrainTimeoutSeconds)+15).
		WithServiceAccountName(spec.ServiceAccountName).
		WithInitContainers(container(service, "fetch",
			"fetch", "--uri", spec.Model, "--source-root", "/models/source").
			WithVolumeMounts(mount("tmp", "/tmp"))).
		WithContainers(engine(service)).
		WithVolumes(
			emptyDir("cache", "", "4Gi"),
			core.Volume().WithName("limits").WithConfigMap(
				core.ConfigMapVolumeSource().WithName(service.Name+"-limits").WithDefaultMode(0o444)),
			emptyDir("shm", corev1.StorageMediumMemory, "1Gi"),
			emptyDir("tmp", "", "4Gi"),
		)
	return core.PodTemplateSpec().WithLabels(labelsOf(service)).WithSpec(pod)
}

func engine(service *GPTService) *core.ContainerApplyConfiguration {
	spec := service.Spec
	return container(service, "engine",
		"serve", "--model", "/models/tiny", "--served-model-name", spec.Model, "--served-model-name", service.Name,
		"--startup-timeout", fmt.Sprint(spec.StartupTimeoutSeconds), "--drain-timeout", fmt.Sprint(spec.DrainTimeoutSeconds),
		"--").
		WithPorts(
			core.ContainerPort().WithName("http").WithContainerPort(8000).WithProtocol(corev1.ProtocolTCP),
			core.ContainerPort().WithName("probes").WithContainerPort(8081).WithProtocol(corev1.ProtocolTCP),
		).
		WithStartupProbe(probe("/startupz", 2, spec.StartupTimeoutSeconds/2+15)).
		WithReadinessProbe(probe("/readyz", 2, 1)).
		WithLivenessProbe(probe("/livez", 10, 3)).
		WithVolumeMounts(
			mount("cache", "/var/cache/gptservice"),
			mount("limits", "/etc/gptservice/limits").WithReadOnly(true),
			mount("shm", "/dev/shm"),
			mount("tmp", "/tmp"),
		)
}

func container(service *GPTService, name string, arguments ...string) *core.ContainerApplyConfiguration {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if service.Spec.Resources != nil {
		for key, quantity := range service.Spec.Resources.Requests {
			requests[corev1.ResourceName(key)] = resource.MustParse(quantity)
		}
	}
	if memory, found := requests[corev1.ResourceMemory]; found {
		limits[corev1.ResourceMemory] = memory
	}
	return core.Container().
		WithName(name).
		WithImage(runtimeImage).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand("gptservice-runtime").
		WithArgs(arguments...).
		WithEnv(core.EnvVar().WithName("NVIDIA_VISIBLE_DEVICES").WithValue("void")).
		WithResources(core.ResourceRequirements().WithRequests(requests).WithLimits(limits)).
		WithSecurityContext(core.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithCapabilities(core.Capabilities().WithDrop("ALL")).
			WithReadOnlyRootFilesystem(true))
}

func probe(path string, period, failures int32) *core.ProbeApplyConfiguration {
	return core.Probe().
		WithHTTPGet(core.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(8081)).WithScheme(corev1.URISchemeHTTP)).
		WithPeriodSeconds(period).WithTimeoutSeconds(3).WithFailureThreshold(failures).WithSuccessThreshold(1)
}

func mount(name, path string) *core.VolumeMountApplyConfiguration {
	return core.VolumeMount().WithName(name).WithMountPath(path)
}

func emptyDir(name string, medium corev1.StorageMedium, size string) *core.VolumeApplyConfiguration {
	source := core.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(size))
	if medium != "" {
		source.WithMedium(medium)
	}
	return core.Volume().WithName(name).WithEmptyDir(source)
}
