package main

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	tpu    = "google.com/tpu"
	jobset = "jobset.sigs.k8s.io/"
)

type shape struct {
	name, accelerator, topology string
	chips                       int64
	hosts                       int
}

var shapes = map[string]shape{
	"tpu-v4-8":  {"tpu-v4-8", "tpu-v4-podslice", "2x2x1", 4, 1},
	"tpu-v4-16": {"tpu-v4-16", "tpu-v4-podslice", "2x2x2", 4, 2},
}

// inject gives the Pod's first container one host's chips, and the Pod their node selector and toleration.
func inject(pod *corev1.Pod, s shape) {
	pod.Annotations["accel.io/injected"] = s.name
	container := &pod.Spec.Containers[0]
	chips := *resource.NewQuantity(s.chips, resource.DecimalSI)
	for _, list := range []*corev1.ResourceList{&container.Resources.Limits, &container.Resources.Requests} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[tpu] = chips
	}
	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector["cloud.google.com/gke-tpu-accelerator"] = s.accelerator
	pod.Spec.NodeSelector["cloud.google.com/gke-tpu-topology"] = s.topology
	tolerates := func(t corev1.Toleration) bool { return t.Key == tpu }
	if !slices.ContainsFunc(pod.Spec.Tolerations, tolerates) {
		toleration := corev1.Toleration{Key: tpu, Operator: corev1.TolerationOpExists}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
	}
	if s.hosts > 1 {
		onePool(pod)
		multislice(pod, container)
	}
}

// onePool keeps the Pod's slice in one node pool, which no other slice shares.
func onePool(pod *corev1.Pod) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["accel.io/multi-host"] = "true"
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	affinity := pod.Spec.Affinity
	if affinity.PodAffinity == nil {
		affinity.PodAffinity = &corev1.PodAffinity{}
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	exists := metav1.LabelSelectorRequirement{Key: "accel.io/multi-host", Operator: metav1.LabelSelectorOpExists}
	together := corev1.PodAffinityTerm{
		TopologyKey:    "cloud.google.com/gke-nodepool",
		LabelSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{exists}},
		MatchLabelKeys: []string{"batch.kubernetes.io/job-name"},
	}
	apart := *together.DeepCopy()
	apart.MatchLabelKeys, apart.MismatchLabelKeys = nil, []string{"batch.kubernetes.io/controller-uid"}
	apart.NamespaceSelector = &metav1.LabelSelector{}
	required := &affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, together)
	required = &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, apart)
}

// multislice returns the variables that a JobSet's slices need to find each other, if it has only one replicated job.
func multislice(pod *corev1.Pod, container *corev1.Container) {
	replicas := pod.Annotations[jobset+"replicatedjob-replicas"]
	if replicas == "" || replicas == "1" || replicas != pod.Annotations[jobset+"global-replicas"] {
		return
	}
	name, member := pod.Annotations[jobset+"jobset-name"], pod.Annotations[jobset+"replicatedjob-name"]
	coordinator := fmt.Sprintf("%s-%s-0-0.%s", name, member, pod.Spec.Subdomain)
	container.Env = append(container.Env,
		fromAnnotation("MEGASCALE_NUM_SLICES", "replicatedjob-replicas"),
		fromAnnotation("MEGASCALE_SLICE_ID", "job-index"),
		corev1.EnvVar{Name: "MEGASCALE_COORDINATOR_ADDRESS", Value: coordinator},
	)
}

func fromAnnotation(variable, key string) corev1.EnvVar {
	path := fmt.Sprintf("metadata.annotations['%s%s']", jobset, key)
	source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	return corev1.EnvVar{Name: variable, ValueFrom: source}
}
