package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "sigs.k8s.io/yaml"
)

// kinds maps apiVersion and kind to the types of Kubernetes and of the Prometheus operator.
var kinds = map[string]func() meta.Object{
	"v1 ConfigMap":                            func() meta.Object { return &core.ConfigMap{} },
	"v1 Secret":                               func() meta.Object { return &core.Secret{} },
	"v1 Service":                              func() meta.Object { return &core.Service{} },
	"v1 ServiceAccount":                       func() meta.Object { return &core.ServiceAccount{} },
	"apps/v1 Deployment":                      func() meta.Object { return &apps.Deployment{} },
	"apps/v1 StatefulSet":                     func() meta.Object { return &apps.StatefulSet{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() meta.Object { return &networking.NetworkPolicy{} },
	"networking.k8s.io/v1 Ingress":            func() meta.Object { return &networking.Ingress{} },
	"policy/v1 PodDisruptionBudget":           func() meta.Object { return &policy.PodDisruptionBudget{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() meta.Object { return &monitoring.ServiceMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() meta.Object { return &monitoring.PrometheusRule{} },
}

// decoded decodes each document into the type of its kind. It reports unknown and repeated fields,
// values of other types, and invalid names and labels.
func decoded(t *testing.T, src []byte) map[string]meta.Object {
	t.Helper()
	all := map[string]meta.Object{}
	for doc := range bytes.SplitSeq(append([]byte("\n"), src...), []byte("\n---")) {
		var head meta.TypeMeta
		if err := kyaml.Unmarshal(doc, &head); err != nil {
			t.Errorf("decode a document: %v in\n%s", err, doc)
			continue
		}
		if head.Kind == "" {
			continue // only comments
		}
		kind := head.APIVersion + " " + head.Kind
		make, ok := kinds[kind]
		if !ok {
			t.Errorf("no type for %s in\n%s", kind, doc)
			continue
		}
		object := make()
		if err := kyaml.UnmarshalStrict(doc, object); err != nil {
			t.Errorf("decode %s: %v in\n%s", kind, err, doc)
			continue
		}
		name := head.Kind + "/" + object.GetName()
		if all[name] != nil {
			t.Errorf("%s: duplicate object", name)
		}
		all[name] = object
		for _, problem := range validation.IsDNS1123Subdomain(object.GetName()) {
			t.Errorf("%s: name %s", name, problem)
		}
		for key, value := range object.GetLabels() {
			for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
				t.Errorf("%s: label %s=%s: %s", name, key, value, problem)
			}
		}
	}
	checkPods(t, all)
	checkReferences(t, all)
	return all
}

// podsOf returns the pod templates of objects, by the name of the object.
func podsOf(all map[string]meta.Object) map[string]core.PodTemplateSpec {
	pods := map[string]core.PodTemplateSpec{}
	for name, object := range all {
		switch o := object.(type) {
		case *apps.Deployment:
			pods[name] = o.Spec.Template
		case *apps.StatefulSet:
			pods[name] = o.Spec.Template
			for _, claim := range o.Spec.VolumeClaimTemplates {
				t := pods[name]
				t.Spec.Volumes = append(t.Spec.Volumes, core.Volume{Name: claim.Name})
				pods[name] = t
			}
		}
	}
	return pods
}

// checkPods runs checks of the API server within a pod: mounts have volumes, probes have ports, images
// have tags.
func checkPods(t *testing.T, all map[string]meta.Object) {
	t.Helper()
	for name, pod := range podsOf(all) {
		volumes, ports := map[string]bool{}, map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, box := range pod.Spec.Containers {
			if image, tag, ok := strings.Cut(box.Image[strings.LastIndex(box.Image, "/")+1:], ":"); !ok || image == "" || tag == "" {
				t.Errorf("%s: image %q has no tag and no digest", name, box.Image)
			}
			for _, p := range box.Ports {
				ports[p.Name] = true
				for _, problem := range validation.IsValidPortName(p.Name) {
					t.Errorf("%s: port %s: %s", name, p.Name, problem)
				}
			}
			for _, m := range box.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: mount %s has no volume", name, m.Name)
				}
			}
			for kind, probe := range map[string]*core.Probe{"readiness": box.ReadinessProbe, "liveness": box.LivenessProbe} {
				if probe == nil || probe.HTTPGet == nil || !ports[probe.HTTPGet.Port.StrVal] {
					t.Errorf("%s: %s probe has an unknown port: %+v", name, kind, probe)
				}
			}
		}
	}
}

// checkReferences verifies that selectors match pods and that referenced Services exist.
func checkReferences(t *testing.T, all map[string]meta.Object) {
	t.Helper()
	selects := func(name string, labels map[string]string) {
		for _, pod := range podsOf(all) {
			selector, err := meta.LabelSelectorAsSelector(&meta.LabelSelector{MatchLabels: labels})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if len(labels) > 0 && selector.Matches(labelSet(pod.Labels)) {
				return
			}
		}
		t.Errorf("%s: got no selected pods: %v", name, labels)
	}
	for name, object := range all {
		switch o := object.(type) {
		case *apps.Deployment:
			selects(name, o.Spec.Selector.MatchLabels)
		case *apps.StatefulSet:
			selects(name, o.Spec.Selector.MatchLabels)
			if all["Service/"+o.Spec.ServiceName] == nil {
				t.Errorf("%s: unknown Service %s", name, o.Spec.ServiceName)
			}
		case *core.Service:
			selects(name, o.Spec.Selector)
		case *policy.PodDisruptionBudget:
			selects(name, o.Spec.Selector.MatchLabels)
		case *networking.NetworkPolicy:
			selects(name, o.Spec.PodSelector.MatchLabels)
		case *networking.Ingress:
			for _, rule := range o.Spec.Rules {
				for _, path := range rule.HTTP.Paths {
					if all["Service/"+path.Backend.Service.Name] == nil {
						t.Errorf("%s: unknown backend Service %s", name, path.Backend.Service.Name)
					}
				}
			}
		case *monitoring.ServiceMonitor:
			selector, err := meta.LabelSelectorAsSelector(&o.Spec.Selector)
			found := 0
			for _, other := range all {
				if s, ok := other.(*core.Service); ok && err == nil && selector.Matches(labelSet(s.Labels)) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s: got %d selected Services, want 1: %v", name, found, err)
			}
		}
	}
}

type labelSet map[string]string

func (s labelSet) Has(label string) bool              { _, ok := s[label]; return ok }
func (s labelSet) Get(label string) string            { return s[label] }
func (s labelSet) Lookup(label string) (string, bool) { v, ok := s[label]; return v, ok }

// everything sets each value that adds to the objects.
var everything = []string{
	"--set", "serviceAccount.create=true", "--set", "serviceAccount.annotations.role=bucket", "--set", "priorityClassName=high",
	"--set-json", `extraEnv=[{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"openai","key":"key"}}},{"name":"A","value":"b"}]`,
	"--set-json", `extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]`, "--set-json", `extraVolumeMounts=[{"name":"ca","mountPath":"/ca"}]`,
	"--set-json", `lifecycle={"preStop":{"sleep":{"seconds":1}}}`, "--set", "podLabels.team=desk", "--set", "podAnnotations.x=y",
	"--set", "ingress.enabled=true", "--set", "ingress.className=nginx", "--set", "ingress.hosts[0].host=agents.example.com",
	"--set-json", `ingress.tls=[{"hosts":["agents.example.com"],"secretName":"tls"}]`, "--set-json", `ingress.annotations={"a/b":"off"}`,
	"--set", "serviceMonitor.enabled=true", "--set", "serviceMonitor.labels.release=prometheus", "--set", "prometheusRule.enabled=true",
	"--set", "nodeSelector.disk=ssd", "--set-json", `tolerations=[{"key":"x","operator":"Exists"}]`, "--set-json", `image.pullSecrets=[{"name":"pull"}]`,
	"--set-json", `affinity={"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}}`, "--set", "image.pullPolicy=Always",
	"--set-json", `extraEnvFrom=[{"secretRef":{"name":"openai"}}]`, "--set-json", `service.annotations={"a":"b"}`, "--set", "service.type=LoadBalancer",
	"--set-json", `topologySpreadConstraints=[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`,
}

// TestChartHasKnownFields verifies that each field is known to Kubernetes or the Prometheus operator,
// with default values and with all values.
func TestChartHasKnownFields(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want int
	}{"defaults": {nil, 5}, "everything": {everything, 10}, "nothing": {[]string{
		"--set", "networkPolicy.enabled=false", "--set", "podDisruptionBudget.enabled=false", "--set", "scrape=false", "--set-json", "topologySpreadConstraints=[]",
	}, 3}} {
		t.Run(name, func(t *testing.T) {
			out, bad, err := helm(t, append([]string{"template", "parley", chart, kube}, tt.args...)...)
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, bad)
			}
			if all := decoded(t, []byte(out)); len(all) != tt.want {
				t.Errorf("got %d objects, want %d: %v", len(all), tt.want, all)
			}
		})
	}
}

func TestManifestsHaveKnownFields(t *testing.T) {
	src := map[string][]byte{}
	for _, name := range []string{"config", "nodes", "secrets", "single"} {
		data, err := os.ReadFile(filepath.Join(root, "kubernetes", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		src[name] = data
	}
	decoded(t, fmt.Appendf(nil, "%s\n---\n%s\n---\n%s", src["config"], src["nodes"], src["secrets"]))
	decoded(t, src["single"])
}

func TestUnknownFieldsAreFound(t *testing.T) {
	for name, src := range map[string]string{
		"an unknown field":        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selectr: {a: b}}",
		"a field twice":           "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: A, type: B}",
		"a value of another type": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: three}",
		"an invalid quantity":     "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {volumes: [{name: a, emptyDir: {sizeLimit: 1Gig}}]}}}",
	} {
		var head meta.TypeMeta
		if err := kyaml.Unmarshal([]byte(src), &head); err != nil && name != "a field twice" {
			t.Fatal(err)
		}
		if head.Kind == "" {
			head = meta.TypeMeta{APIVersion: "v1", Kind: "Service"}
		}
		if err := kyaml.UnmarshalStrict([]byte(src), kinds[head.APIVersion+" "+head.Kind]()); err == nil {
			t.Errorf("%s: got no error for\n%s", name, src)
		}
	}
}
