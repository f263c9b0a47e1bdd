// Package deploy_test tests the folder deploy with the tools that read it: helm for the chart, and
// Prometheus's parser for alert rules. It is a module of its own, so that parley depends on neither.
// make deploy-check builds the tools and runs it.
package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	// helmEnv is the variable with the path of the helm binary.
	helmEnv = "PARLEY_TEST_HELM"
	// kube is the oldest supported version of Kubernetes.
	kube = "--kube-version=1.27.0"
)

var (
	root  = filepath.Join("..", "..", "deploy")
	chart = filepath.Join(root, "helm", "parley")
)

func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := os.Getenv(helmEnv)
	if program == "" {
		t.Fatalf("%s is not set; run make deploy-check, which builds helm", helmEnv)
	}
	var out, bad bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &bad
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	err = cmd.Run()
	return out.String(), bad.String(), err
}

// template renders the chart and returns its objects by kind and name.
func template(t *testing.T, release string, args ...string) map[string]any {
	t.Helper()
	out, bad, err := helm(t, append([]string{"template", release, chart, kube}, args...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, bad)
	}
	return objects(t, []byte(out))
}

// objects decodes Kubernetes documents and returns them by kind and name.
func objects(t *testing.T, src []byte) map[string]any {
	t.Helper()
	all := map[string]any{}
	for dec := yaml.NewDecoder(bytes.NewReader(src)); ; {
		var n map[string]any
		switch err := dec.Decode(&n); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%v in\n%s", err, src)
		case n == nil:
			continue
		}
		name := fmt.Sprintf("%v/%v", n["kind"], at(n, "metadata", "name"))
		if all[name] != nil {
			t.Fatalf("%s: duplicate object", name)
		}
		all[name] = n
	}
}

// at returns the value at a path of keys, or nil.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// box returns the container of the nodes.
func box(all map[string]any, name string) map[string]any {
	list, _ := at(all["Deployment/"+name], "spec", "template", "spec", "containers").([]any)
	if len(list) != 1 {
		return nil
	}
	m, _ := list[0].(map[string]any)
	return m
}

// TestChartIsTheManifests verifies that the default chart equals deploy/kubernetes, except for
// Secrets, which it does not create.
func TestChartIsTheManifests(t *testing.T) {
	want := map[string]any{}
	for _, name := range []string{"config.yaml", "nodes.yaml"} {
		src, err := os.ReadFile(filepath.Join(root, "kubernetes", name))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range objects(t, src) {
			want[k] = v
		}
	}
	if len(want) != 5 {
		t.Fatalf("got %d manifests", len(want))
	}
	got := template(t, "parley")
	for name, object := range got {
		labels, _ := at(object, "metadata", "labels").(map[string]any)
		for _, l := range []string{"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"} {
			if labels[l] == nil {
				t.Errorf("%s: got no label %s", name, l)
			}
			delete(labels, l)
		}
	}
	annotations, _ := at(got["Deployment/parley"], "spec", "template", "metadata", "annotations").(map[string]any)
	if sum, _ := annotations["checksum/config"].(string); len(sum) != 64 {
		t.Errorf("a change of the configuration restarts no node: got annotations %v", annotations)
	}
	delete(annotations, "checksum/config")
	if sum, _ := annotations["checksum/secrets"].(string); len(sum) != 64 {
		t.Errorf("a change of a Secret restarts no node: got annotations %v", annotations)
	}
	delete(annotations, "checksum/secrets")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("objects (-manifests +chart):\n%s", d)
	}
}

// TestChartLints verifies that helm lint reports only the missing icon.
func TestChartLints(t *testing.T) {
	out, bad, err := helm(t, "lint", "--strict", kube, chart)
	if err != nil {
		t.Errorf("helm lint: %v\n%s%s", err, out, bad)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "[") && !strings.Contains(line, "icon is recommended") {
			t.Errorf("helm lint: %s", line)
		}
	}
}

// TestChartTakesValues verifies the effect of each value, and that two releases do not collide.
func TestChartTakesValues(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(conf, []byte("listen: \":8080\"\ncluster: {listen: \":7000\"}\nadmin: {listen: \":9000\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	all := template(t, "desk", "--set-file", "config="+conf, "--set", "replicas=5", "--set", "image.repository=own/parley", "--set", "image.tag=1.2",
		"--set", "image.digest="+digest, "--set", "image.pullPolicy=Always", "--set", "image.pullSecrets[0].name=pull", "--set", "bucket.existingSecret=b",
		"--set", "token.existingSecret=t", "--set", "certs.existingSecret=c", "--set", "extraEnvFrom[0].secretRef.name=openai",
		"--set", "podDisruptionBudget.enabled=false", "--set-json", "networkPolicy.adminFrom=[]", "--set", "scrape=false", "--set", "service.type=LoadBalancer",
		"--set", "terminationGracePeriodSeconds=90", "--set", "nodeSelector.disk=ssd", "--set", "probes.liveness.periodSeconds=20")
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{"ConfigMap/desk-parley", "Deployment/desk-parley", "NetworkPolicy/desk-parley", "Service/desk-parley"}, names); d != "" {
		t.Fatalf("objects (-want +got):\n%s", d)
	}
	deployment, node := all["Deployment/desk-parley"], box(all, "desk-parley")
	pod := at(deployment, "spec", "template", "spec")
	secret := func(name string) any { return map[string]any{"secretRef": map[string]any{"name": name}} }
	port := func(name string, n int) any { return map[string]any{"name": name, "containerPort": n} }
	volumes, _ := at(pod, "volumes").([]any)
	if len(volumes) != 3 || at(volumes[0], "configMap", "name") != "desk-parley" || at(volumes[1], "secret", "secretName") != "c" {
		t.Fatalf("got volumes %v", volumes)
	}
	for desc, pair := range map[string][2]any{
		"replicas": {5, at(deployment, "spec", "replicas")},
		"image":    {"own/parley@" + digest, node["image"]},
		"pull":     {"Always", node["imagePullPolicy"]},
		"secrets":  {[]any{map[string]any{"name": "pull"}}, at(pod, "imagePullSecrets")},
		"from":     {[]any{secret("b"), secret("t"), secret("openai")}, node["envFrom"]},
		"ports":    {[]any{port("http", 8080), port("nodes", 7000), port("admin", 9000)}, node["ports"]},
		"grace":    {90, at(pod, "terminationGracePeriodSeconds")},
		"selector": {map[string]any{"disk": "ssd"}, at(pod, "nodeSelector")},
		"liveness": {20, at(node, "livenessProbe", "periodSeconds")},
		"failures": {6, at(node, "livenessProbe", "failureThreshold")},
		"service":  {"LoadBalancer", at(all["Service/desk-parley"], "spec", "type")},
		"pods":     {map[string]any{"app": "desk-parley"}, at(all["Service/desk-parley"], "spec", "selector")},
		"account":  {nil, at(pod, "serviceAccountName")},
		"tmp":      {"1280Mi", at(volumes[2], "emptyDir", "sizeLimit")},
		"scrape":   {nil, at(deployment, "spec", "template", "metadata", "annotations", "prometheus.io/scrape")},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" {
			t.Errorf("%s (-want +got):\n%s", desc, d)
		}
	}
	// A rule without "from" would admit all clients.
	if rules, _ := at(all["NetworkPolicy/desk-parley"], "spec", "ingress").([]any); len(rules) != 2 {
		t.Errorf("got network rules %v", rules)
	}
}

// TestChartTakesEnvironmentValues verifies values for accounts, variables, volumes, hooks, priority,
// spread, ingress and the Prometheus operator.
func TestChartTakesEnvironmentValues(t *testing.T) {
	all := template(t, "desk", everything...)
	deployment, node := all["Deployment/desk-parley"], box(all, "desk-parley")
	pod := at(deployment, "spec", "template", "spec")
	env, _ := node["env"].([]any)
	volumes, _ := at(pod, "volumes").([]any)
	mounts, _ := node["volumeMounts"].([]any)
	spread, _ := at(pod, "topologySpreadConstraints").([]any)
	rules, _ := at(all["Ingress/desk-parley"], "spec", "rules").([]any)
	groups, _ := at(all["PrometheusRule/desk-parley"], "spec", "groups").([]any)
	if len(env) != 3 || len(volumes) != 4 || len(mounts) != 4 || len(spread) != 1 || len(rules) != 1 || len(groups) < 2 {
		t.Fatalf("got %d variables, %d volumes, %d mounts, %d constraints, %d rules of ingress, %d groups of alerts", len(env), len(volumes), len(mounts), len(spread), len(rules), len(groups))
	}
	for desc, pair := range map[string][2]any{
		"account":   {"desk-parley", at(pod, "serviceAccountName")},
		"role":      {"bucket", at(all["ServiceAccount/desk-parley"], "metadata", "annotations", "role")},
		"priority":  {"high", at(pod, "priorityClassName")},
		"lifecycle": {1, at(node, "lifecycle", "preStop", "sleep", "seconds")},
		"label":     {"desk", at(deployment, "spec", "template", "metadata", "labels", "team")},
		"variable":  {"A", at(env[2], "name")},
		"volume":    {"ca", at(volumes[3], "name")},
		"mount":     {"/ca", at(mounts[3], "mountPath")},
		"spread":    {map[string]any{"app": "desk-parley"}, at(spread[0], "labelSelector", "matchLabels")},
		"class":     {"nginx", at(all["Ingress/desk-parley"], "spec", "ingressClassName")},
		"host":      {"agents.example.com", at(rules[0], "host")},
		"admin":     {true, at(all["Service/desk-parley-admin"], "spec", "publishNotReadyAddresses")},
		"headless":  {"None", at(all["Service/desk-parley-admin"], "spec", "clusterIP")},
		"operator":  {"prometheus", at(all["ServiceMonitor/desk-parley"], "metadata", "labels", "release")},
		"scraped":   {nil, at(deployment, "spec", "template", "metadata", "annotations", "prometheus.io/scrape")},
		"eviction":  {"AlwaysAllow", at(all["PodDisruptionBudget/desk-parley"], "spec", "unhealthyPodEvictionPolicy")},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" {
			t.Errorf("%s (-want +got):\n%s", desc, d)
		}
	}
	rule, err := os.ReadFile(filepath.Join(root, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(rule, &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want["groups"], at(all["PrometheusRule/desk-parley"], "spec", "groups")); d != "" {
		t.Errorf("rules (-prometheus/alerts.yaml +chart):\n%s", d)
	}
}

// TestChartDerivesValues verifies the values that the chart derives from the configuration.
func TestChartDerivesValues(t *testing.T) {
	conf := "listen: \":1\"\ncluster: {listen: \":2\"}\nadmin: {listen: \":3\"}\n"
	for name, tt := range map[string]struct {
		conf string
		set  []string
		tmp  string
	}{
		"as it is":        {"", nil, "1280Mi"},
		"a larger spool":  {"limits: {spoolBytes: 8589934592}\n", nil, "10240Mi"},
		"a size by hand":  {"limits: {spoolBytes: 8589934592}\n", []string{"--set", "tmpSize=16Gi"}, "16Gi"},
		"a longer drain":  {"drain: {delay: 20s}\n", nil, "1280Mi"},
		"a drain of zero": {"drain: {delay: 0s}\n", []string{"--set", "terminationGracePeriodSeconds=30"}, "1280Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "parley.yaml")
			if err := os.WriteFile(file, []byte(conf+tt.conf), 0o600); err != nil {
				t.Fatal(err)
			}
			all := template(t, "parley", append([]string{"--set-file", "config=" + file}, tt.set...)...)
			volumes, _ := at(all["Deployment/parley"], "spec", "template", "spec", "volumes").([]any)
			if got := at(volumes[2], "emptyDir", "sizeLimit"); got != tt.tmp {
				t.Errorf("sizeLimit of /tmp: got %v, want %s", got, tt.tmp)
			}
		})
	}
}

// TestChartIsStamped verifies that helm package sets the version in the image tag and the labels.
func TestChartIsStamped(t *testing.T) {
	dir := t.TempDir()
	if _, bad, err := helm(t, "package", chart, "--version", "1.2.3", "--app-version", "v1.2.3", "--destination", dir); err != nil {
		t.Fatalf("helm package: %v\n%s", err, bad)
	}
	out, bad, err := helm(t, "template", "parley", filepath.Join(dir, "parley-1.2.3.tgz"), kube)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, bad)
	}
	all := objects(t, []byte(out))
	if got, want := box(all, "parley")["image"], "registry.example.com/parley:v1.2.3"; got != want {
		t.Errorf("image: got %v, want %s", got, want)
	}
	if got := at(all["Deployment/parley"], "metadata", "labels", "app.kubernetes.io/version"); got != "v1.2.3" {
		t.Errorf("label of the version: got %v, want v1.2.3", got)
	}
}

// TestChartRefuses verifies that invalid values fail before they reach a cluster.
func TestChartRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ set, want string }{
		"an unknown value":          {"replica=3", "replica"},
		"no secret":                 {"bucket.existingSecret=", "existingSecret"},
		"an invalid digest":         {"image.digest=sha256:12", "digest"},
		"too little time to end":    {"terminationGracePeriodSeconds=5", "terminationGracePeriodSeconds"},
		"less time than the drain":  {"terminationGracePeriodSeconds=60,config=" + strings.ReplaceAll(`listen: ":1"\ncluster: {listen: ":2"}\nadmin: {listen: ":3"}\ndrain: {delay: 1m}`, `\n`, "\n"), "want 85 or more"},
		"an ingress without a host": {"ingress.enabled=true", "ingress.hosts has to name a host"},
		"an invalid eviction":       {"podDisruptionBudget.unhealthyPodEvictionPolicy=Never", "unhealthyPodEvictionPolicy"},
		"a configuration without":   {`config=listen: ":3000"`, "config has to say admin.listen as host:port"},
		"an invalid port":           {`config=admin: {listen: ":http"}`, "config has to say admin.listen as host:port"},
		"an invalid configuration":  {"config=[", "config is not the text of a parley.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, bad, err := helm(t, "template", "parley", chart, kube, "--set", tt.set)
			if err == nil || !strings.Contains(bad, tt.want) {
				t.Errorf("got %v, %q, want %q; printed %d bytes", err, bad, tt.want, len(out))
			}
		})
	}
}

// TestChartIsForKubernetesFrom verifies the minimum version of Kubernetes, and that the page states
// it.
func TestChartIsForKubernetesFrom(t *testing.T) {
	if _, bad, err := helm(t, "template", "parley", chart, "--kube-version=1.26.0"); err == nil || !strings.Contains(bad, "1.27.0") {
		t.Errorf("got %v, %q", err, bad)
	}
}
