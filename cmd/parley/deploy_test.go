package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/operator"
	"github.com/parleyrun/parley/internal/cli/server"
	"github.com/parleyrun/parley/internal/config"
)

// deployRoot is the folder of the examples.
var deployRoot = filepath.Join("..", "..", "deploy")

// tree is a yaml document.
type tree map[string]any

// at follows keys, and indexes in brackets; it returns nil for a missing one.
func (n tree) at(path string) any {
	var v any = n
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case tree:
			v = x[step]
		case map[string]any:
			v = x[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// in is at for a mapping.
func (n tree) in(path string) tree {
	switch m := n.at(path).(type) {
	case tree:
		return m
	case map[string]any:
		return m
	}
	return nil
}

// texts is at for a list of texts.
func (n tree) texts(path string) []string {
	var out []string
	list, _ := n.at(path).([]any)
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// documents parses every document of a file.
func documents(t *testing.T, name string) []tree {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(deployRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	var all []tree
	for dec := yaml.NewDecoder(bytes.NewReader(src)); ; {
		var n tree
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, n)
	}
}

// parsed checks the arguments of a container against the program and returns the value of --config.
func parsed(t *testing.T, args []string) (file string) {
	t.Helper()
	cmd, rest, err := program.Root().Find(args)
	if err != nil || cmd.RunE == nil {
		t.Errorf("%q: %v", args, err)
		return ""
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%q: %v", args, err)
		return ""
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	file, _ = cmd.Flags().GetString("config")
	return file
}

// loaded parses a configuration of the examples as a node with the environment env does.
func loaded(t *testing.T, src string, env map[string]string) *config.Server {
	t.Helper()
	opts := program.Own.ConfigOptions()
	opts.Env = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	conf, err := config.Parse("parley.yaml", []byte(src), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.CheckAgents(&program.Own, "parley.yaml", conf); err != nil {
		t.Error(err)
	}
	if conf.Cluster == nil || conf.Cluster.TLS == nil || conf.Cluster.Advertise == "" || conf.Admin.Listen == "" {
		t.Fatalf("the configuration shares nothing: %+v", conf)
	}
	return conf
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// answered requires that the admin server knows a path.
func answered(t *testing.T, path string) {
	t.Helper()
	s, err := admin.New(func() actors.Status { return actors.Status{Ready: true} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != 200 {
		t.Errorf("%s is answered with %d", path, w.Code)
	}
}

// namesFiles requires that the files of the configuration are those that "parley cluster certs" writes
// to dir.
func namesFiles(t *testing.T, conf *config.Server, dir string) {
	t.Helper()
	want := config.TLS{CA: dir + "/" + operator.CAFile, Cert: dir + "/" + operator.NodeFile, Key: dir + "/" + operator.NodeKeyFile, Name: config.DefaultTLSName}
	if d := cmp.Diff(want, *conf.Cluster.TLS); d != "" {
		t.Errorf("certificates (-want +got):\n%s", d)
	}
}

// manifests returns the objects of a file of manifests, by kind and name.
func manifests(t *testing.T, file, app string) map[string]tree {
	t.Helper()
	objects := map[string]tree{}
	for _, n := range documents(t, filepath.Join("kubernetes", file)) {
		name := fmt.Sprintf("%v/%v", n["kind"], n.at("metadata.name"))
		if n["apiVersion"] == nil || objects[name] != nil || n.at("metadata.labels.app") != app {
			t.Errorf("%s: %s is not whole, or there twice", file, name)
		}
		objects[name] = n
	}
	return objects
}

// The single node has its data on the volume of its claim, and no replica.
func TestDeployKubernetesSingle(t *testing.T) {
	objects := manifests(t, "single.yaml", "parley-single")
	set := objects["StatefulSet/parley-single"]
	pod, box := set.in("spec.template.spec"), set.in("spec.template.spec.containers.0")
	dir, file := filepath.Split(parsed(t, box.texts("args")))
	src, _ := objects["ConfigMap/parley-single"].in("data")[file].(string)
	opts := program.Own.ConfigOptions()
	opts.Env = func(string) (string, bool) { return "token", true }
	conf, err := config.Parse("parley.yaml", []byte(src), opts)
	if err != nil {
		t.Fatal(err)
	}
	mounts := map[string]string{}
	for i := range box["volumeMounts"].([]any) {
		mounts[fmt.Sprint(box.at(fmt.Sprintf("volumeMounts.%d.name", i)))] = fmt.Sprint(box.at(fmt.Sprintf("volumeMounts.%d.mountPath", i)))
	}
	claim := fmt.Sprint(set.at("spec.volumeClaimTemplates.0.metadata.name"))
	if !strings.HasPrefix(conf.Bucket.Dir, mounts[claim]+"/") || mounts["config"]+"/" != dir || conf.Cluster != nil || conf.Auth.Bearer != "token" {
		t.Errorf("got bucket %+v, auth %+v and mounts %v; want the data below the claim %s, a token, and no cluster", conf.Bucket, conf.Auth, mounts, claim)
	}
	if set.at("spec.replicas") != 1 || pod.at("securityContext.fsGroup") != 65532 || pod["automountServiceAccountToken"] != false {
		t.Errorf("got %v replicas of %v, want one whose group has the volume", set.at("spec.replicas"), pod)
	}
	if got, want := box["image"], documents(t, filepath.Join("kubernetes", "nodes.yaml"))[0].at("spec.template.spec.containers.0.image"); got != want {
		t.Errorf("image: got %v, want %v as of the other nodes", got, want)
	}
	if got := box.at("envFrom.0.secretRef.name"); got != "parley-token" {
		t.Errorf("Secret of the token: got %v, want parley-token", got)
	}
	for i, listen := range []string{conf.Listen, conf.Admin.Listen} {
		if got := fmt.Sprint(box.at(fmt.Sprintf("ports.%d.containerPort", i))); got != portOf(t, listen) {
			t.Errorf("port %d of the container: got %s, want that of %s", i, got, listen)
		}
	}
}

// The steps of the page create every Secret and ConfigMap that the manifests name, push the image that
// they build, and apply every manifest. The same holds for the chart.
func TestDeployStepsAreComplete(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "deployment.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Kubernetes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks of commands, want 3: image and Secrets, manifests, one node", len(blocks))
	}
	for _, tt := range []struct{ steps, file, app string }{
		{blocks[0][1] + blocks[1][1], "nodes.yaml", "parley"}, {blocks[0][1] + blocks[2][1], "single.yaml", "parley-single"},
	} {
		need := map[string]bool{}
		for _, object := range manifests(t, tt.file, tt.app) {
			src, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?:secretName: |secretRef:\s+name: )(\S+)`).FindAllStringSubmatch(string(src), -1) {
				need[m[1]] = true
			}
		}
		for name := range need {
			if !strings.Contains(tt.steps, "kubectl create secret generic "+name+" ") {
				t.Errorf("%s names the Secret %s, which no step creates:\n%s", tt.file, name, tt.steps)
			}
		}
		if len(need) == 0 || !strings.Contains(tt.steps, "deploy/kubernetes/"+tt.file) || !strings.Contains(tt.steps, "docker push ") {
			t.Errorf("no step applies %s, or pushes its image:\n%s", tt.file, tt.steps)
		}
	}
	if !strings.Contains(blocks[1][1], "deploy/kubernetes/config.yaml") {
		t.Errorf("no step applies config.yaml:\n%s", blocks[1][1])
	}
}

func TestDeployKubernetes(t *testing.T) {
	objects := map[string]tree{}
	for _, f := range []string{"config.yaml", "nodes.yaml", "secrets.yaml"} {
		maps.Copy(objects, manifests(t, f, "parley"))
	}
	want := []string{
		"ConfigMap/parley", "Deployment/parley", "NetworkPolicy/parley", "PodDisruptionBudget/parley", "Secret/parley-bucket", "Secret/parley-certs",
		"Secret/parley-token", "Service/parley",
	}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(objects))); d != "" {
		t.Fatalf("objects (-want +got):\n%s", d)
	}
	for name, version := range map[string]string{
		"ConfigMap/parley": "v1", "Deployment/parley": "apps/v1", "PodDisruptionBudget/parley": "policy/v1", "Secret/parley-certs": "v1", "Service/parley": "v1",
		"NetworkPolicy/parley": "networking.k8s.io/v1", "Secret/parley-token": "v1",
	} {
		if objects[name]["apiVersion"] != version {
			t.Errorf("%s has the version %v, want %s", name, objects[name]["apiVersion"], version)
		}
	}
	deployment := objects["Deployment/parley"]
	pod, box := deployment.in("spec.template.spec"), deployment.in("spec.template.spec.containers.0")
	env := map[string]string{}
	for key := range objects["Secret/parley-bucket"].in("stringData") {
		env[key] = "secret"
	}
	for key := range objects["Secret/parley-token"].in("stringData") {
		env[key] = "token"
	}
	if box.at("envFrom.0.secretRef.name") != "parley-bucket" || box.at("envFrom.1.secretRef.name") != "parley-token" || box.at("env.0.valueFrom.fieldRef.fieldPath") != "status.podIP" {
		t.Errorf("environment is %v and %v", box["env"], box["envFrom"])
	}
	env[fmt.Sprint(box.at("env.0.name"))] = "fd00::7"
	mounts := map[string]string{} // path of a volume
	for i := range pod["volumes"].([]any) {
		volume := pod.in(fmt.Sprintf("volumes.%d", i))
		for j := range box["volumeMounts"].([]any) {
			if mount := box.in(fmt.Sprintf("volumeMounts.%d", j)); mount["name"] == volume["name"] {
				mounts[fmt.Sprint(volume.at("configMap.name"), volume.at("secret.secretName"))] = fmt.Sprint(mount["mountPath"])
			}
		}
	}
	dir, file := filepath.Split(parsed(t, box.texts("args")))
	if mounts["parley<nil>"]+"/" != dir {
		t.Errorf("the configuration is in %s, volumes are %v", dir, mounts)
	}
	src, _ := objects["ConfigMap/parley"].in("data")[file].(string)
	conf := loaded(t, src, env)
	if conf.Auth.Bearer != "token" {
		t.Error("nodes are open without authentication")
	}
	checkPolicy(t, objects["NetworkPolicy/parley"], deployment)
	if conf.Cluster.Advertise != "[fd00::7]:7946" {
		t.Errorf("advertises %s", conf.Cluster.Advertise)
	}
	namesFiles(t, conf, mounts["<nil>parley-certs"])
	certs := objects["Secret/parley-certs"].in("stringData")
	if d := cmp.Diff([]string{operator.CAFile, operator.NodeKeyFile, operator.NodeFile}, slices.Sorted(maps.Keys(certs))); d != "" {
		t.Errorf("files of the Secret (-want +got):\n%s", d)
	}
	checkPorts(t, conf, box, objects["Service/parley"])
	checkSelectors(t, deployment, objects["Service/parley"], objects["PodDisruptionBudget/parley"])
}

// The defaults of the chart equal the manifests, as far as can be checked without helm. make
// deploy-check renders the chart and compares all objects.
func TestDeployChart(t *testing.T) {
	values := documents(t, filepath.Join("helm", "parley", "values.yaml"))[0]
	conf := documents(t, filepath.Join("kubernetes", "config.yaml"))[0]
	nodes := documents(t, filepath.Join("kubernetes", "nodes.yaml"))[0]
	pod, box := nodes.in("spec.template.spec"), nodes.in("spec.template.spec.containers.0")
	for desc, pair := range map[string][2]any{
		"config":    {conf.in("data")["parley.yaml"], values["config"]},
		"image":     {box["image"], fmt.Sprint(values.at("image.repository"), ":", documents(t, filepath.Join("helm", "parley", "Chart.yaml"))[0]["appVersion"])},
		"replicas":  {nodes.at("spec.replicas"), values["replicas"]},
		"grace":     {pod["terminationGracePeriodSeconds"], values["terminationGracePeriodSeconds"]},
		"resources": {box["resources"], values["resources"]},
		"bucket":    {box.at("envFrom.0.secretRef.name"), values.at("bucket.existingSecret")},
		"token":     {box.at("envFrom.1.secretRef.name"), values.at("token.existingSecret")},
		"certs":     {pod.at("volumes.1.secret.secretName"), values.at("certs.existingSecret")},
		"readiness": {box.at("readinessProbe.periodSeconds"), values.at("probes.readiness.periodSeconds")},
	} {
		if d := cmp.Diff(pair[0], pair[1]); d != "" || pair[0] == nil {
			t.Errorf("%s (-manifests +chart):\n%s", desc, d)
		}
	}
	rules, err := os.ReadFile(filepath.Join(deployRoot, "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(filepath.Join(deployRoot, "helm", "parley", "files", "alerts.yaml"))
	if err != nil || !bytes.Equal(rules, copied) {
		t.Errorf("helm/parley/files/alerts.yaml differs from prometheus/alerts.yaml (%v): copy that over it", err)
	}
}

// A release has the required programs and systems, and its files refer to existing names.
func TestDeployReleases(t *testing.T) {
	file := documents(t, filepath.Join("..", ".goreleaser.yaml"))[0]
	if d := cmp.Diff([]string{"linux", "darwin", "windows"}, file.texts("builds.0.goos")); d != "" {
		t.Errorf("systems:\n%s", d)
	}
	if d := cmp.Diff([]string{"amd64", "arm64"}, file.texts("builds.0.goarch")); d != "" {
		t.Errorf("processors:\n%s", d)
	}
	// A program reports the version that Go stamps.
	if !slices.Contains(file.texts("builds.0.env"), "CGO_ENABLED=0") || !slices.Contains(file.texts("builds.0.flags"), "-buildvcs=true") {
		t.Errorf("built with %v and %v", file.at("builds.0.env"), file.at("builds.0.flags"))
	}
	for _, name := range append(file.texts("archives.0.files"), fmt.Sprint(file.at("builds.0.main"))) {
		if _, err := os.Stat(filepath.Join(deployRoot, "..", name)); err != nil {
			t.Error(err)
		}
	}
}

// checkPolicy requires that only the necessary peers reach each port of the nodes.
func checkPolicy(t *testing.T, policy, deployment tree) {
	t.Helper()
	labels := deployment.at("spec.template.metadata.labels")
	if d := cmp.Diff(labels, policy.at("spec.podSelector.matchLabels")); d != "" {
		t.Errorf("the policy selects other pods:\n%s", d)
	}
	from := map[string]any{}
	for i := range policy.at("spec.ingress").([]any) {
		rule := policy.in(fmt.Sprintf("spec.ingress.%d", i))
		from[fmt.Sprint(rule.at("ports.0.port"))] = rule["from"]
	}
	if _, ok := from["http"]; !ok || from["http"] != nil || from["nodes"] == nil || from["admin"] == nil || len(from) != 3 {
		t.Errorf("got allowed peers %v", from)
	}
	if d := cmp.Diff(labels, policy.at("spec.ingress.1.from.0.podSelector.matchLabels")); d != "" {
		t.Errorf("others than nodes reach their port:\n%s", d)
	}
}

// checkPorts compares the ports of a container, its probes and the service with the configuration.
func checkPorts(t *testing.T, conf *config.Server, box, service tree) {
	t.Helper()
	ports := map[string]string{}
	for i := range box["ports"].([]any) {
		p := box.in(fmt.Sprintf("ports.%d", i))
		ports[fmt.Sprint(p["name"])] = fmt.Sprint(p["containerPort"])
	}
	want := map[string]string{"http": portOf(t, conf.Listen), "nodes": portOf(t, conf.Cluster.Listen), "admin": portOf(t, conf.Admin.Listen)}
	if d := cmp.Diff(want, ports); d != "" {
		t.Errorf("ports (-configuration +container):\n%s", d)
	}
	for probe, path := range map[string]string{"readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
		if box.at(probe+".httpGet.path") != path || box.at(probe+".httpGet.port") != "admin" {
			t.Errorf("%s is %v", probe, box[probe])
		}
		answered(t, path)
	}
	if service.at("spec.ports.0.targetPort") != "http" {
		t.Errorf("the service sends to %v", service.at("spec.ports.0.targetPort"))
	}
}

// checkSelectors requires that all selectors match the same pods, and that the pods meet the needs of
// a node.
func checkSelectors(t *testing.T, deployment, service, budget tree) {
	t.Helper()
	labels := deployment.at("spec.template.metadata.labels")
	for name, got := range map[string]any{
		"Deployment": deployment.at("spec.selector.matchLabels"), "Service": service.at("spec.selector"), "PodDisruptionBudget": budget.at("spec.selector.matchLabels"),
		"spread": deployment.at("spec.template.spec.topologySpreadConstraints.0.labelSelector.matchLabels"),
	} {
		if d := cmp.Diff(labels, got); d != "" || labels == nil {
			t.Errorf("%s selects other pods (-labels +got):\n%s", name, d)
		}
	}
	pod := deployment.in("spec.template.spec")
	if pod["automountServiceAccountToken"] != false || pod.at("securityContext.runAsNonRoot") != true || pod.at("securityContext.runAsUser") != 65532 {
		t.Errorf("the pod has more rights than it needs: %v", pod)
	}
	// The shutdown of a node includes the drain, the hand-over, and open requests.
	if grace, _ := pod["terminationGracePeriodSeconds"].(int); grace < 30 {
		t.Errorf("the pod has %d s to end", grace)
	}
	if deployment.at("spec.replicas") != 3 || budget.at("spec.maxUnavailable") != 1 || deployment.at("spec.strategy.rollingUpdate.maxUnavailable") != 0 {
		t.Error("the numbers of nodes differ from the page")
	}
}

func TestDeployCompose(t *testing.T) {
	all := documents(t, "compose.yaml")
	if len(all) != 1 {
		t.Fatalf("%d documents", len(all))
	}
	file := all[0]
	services := file.in("services")
	if d := cmp.Diff([]string{"bucket", "certs", "clickhouse", "grafana", "minio", "node-1", "node-2", "node-3"}, slices.Sorted(maps.Keys(services))); d != "" {
		t.Fatalf("services (-want +got):\n%s", d)
	}
	src, _ := file.at("configs.parley.content").(string)
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		node := services.in(name)
		env := map[string]string{}
		for key, v := range node.in("environment") {
			env[key] = fmt.Sprint(v)
		}
		conf := loaded(t, src, env)
		if want := name + ":" + portOf(t, conf.Cluster.Listen); conf.Cluster.Advertise != want {
			t.Errorf("%s advertises %s, want %s", name, conf.Cluster.Advertise, want)
		}
		if conf.Auth.Bearer == "" || !strings.HasPrefix(conf.Admin.Listen, "127.0.0.1:") {
			t.Errorf("%s has no authentication: %+v, %s", name, conf.Auth, conf.Admin.Listen)
		}
		namesFiles(t, conf, "/etc/parley/certs")
		if node.at("configs.0.source") != "parley" || node.at("configs.0.target") != "/etc/parley/parley.yaml" || node.texts("volumes")[0] != "certs:/etc/parley/certs:ro" {
			t.Errorf("%s does not have its files: %v", name, node)
		}
		if got := node.texts("ports"); len(got) != 1 || !strings.HasSuffix(got[0], ":"+portOf(t, conf.Listen)) {
			t.Errorf("%s publishes %v", name, got)
		}
		test := node.texts("healthcheck.test")
		url := test[len(test)-1]
		if want := "http://127.0.0.1:" + portOf(t, conf.Admin.Listen) + "/readyz"; url != want {
			t.Errorf("%s is asked at %s, want %s", name, url, want)
		}
		answered(t, "/readyz")
		checkDatabase(t, services, conf)
		for job := range node.in("depends_on") {
			if services[job] == nil || node.at("depends_on."+job+".condition") != "service_completed_successfully" {
				t.Errorf("%s waits for %s", name, job)
			}
		}
		store := services.in("minio.environment")
		if conf.Bucket.Endpoint != "minio:9000" || store["MINIO_ROOT_USER"] != conf.Bucket.AccessKey || store["MINIO_ROOT_PASSWORD"] != conf.Bucket.SecretKey ||
			!slices.Contains(services.in("bucket").texts("command"), "store/"+conf.Bucket.Name) {
			t.Errorf("the bucket is not the one that is made: %+v", conf.Bucket)
		}
		if want := fmt.Sprintf("http://%s:%s@%s", conf.Bucket.AccessKey, conf.Bucket.SecretKey, conf.Bucket.Endpoint); services.at("bucket.environment.MC_HOST_store") != want {
			t.Errorf("got endpoint %v of the job, want %s", services.at("bucket.environment.MC_HOST_store"), want)
		}
	}
	for name := range services {
		checkBox(t, file, name)
		if f := services.at(name + ".build.dockerfile"); f != nil {
			if _, err := os.Stat(filepath.Join(deployRoot, "..", fmt.Sprint(f))); err != nil {
				t.Error(err)
			}
		}
	}
}

// The job that creates certificates runs twice, over volumes of an earlier version. A node mounts its
// pair and the certificate of the authority, never the authority's key.
func TestDeployComposeCertificates(t *testing.T) {
	services := documents(t, "compose.yaml")[0].in("services")
	job := services.in("certs")
	script := job.texts("command")
	if d := cmp.Diff([]string{"/bin/sh", "-ec"}, job.texts("entrypoint")); d != "" || len(script) != 1 {
		t.Fatalf("entrypoint (-want +got):\n%s\ncommand: got %d texts, want 1", d, len(script))
	}
	dirs := map[string]string{} // by volume
	text := strings.ReplaceAll(script[0], "$$", "$")
	for _, v := range job.texts("volumes") {
		volume, dir, _ := strings.Cut(v, ":")
		dirs[volume] = t.TempDir()
		text = strings.ReplaceAll(text, dir, dirs[volume])
	}
	if err := os.WriteFile(filepath.Join(dirs["certs"], "ca-key.pem"), []byte("of an earlier version"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^parley (.*)\n`)
	for range 2 {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			if code, out, bad := program.Output(t, strings.Fields(m[1])...); code != 0 {
				t.Fatalf("parley %s: exit %d, %s%s", m[1], code, out, bad)
			}
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", command.ReplaceAllString(text, ""))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("run the job: %v\n%s", err, out)
		}
		files, err := os.ReadDir(dirs["certs"])
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, f.Name())
		}
		if d := cmp.Diff([]string{operator.CAFile, operator.NodeKeyFile, operator.NodeFile}, names); d != "" {
			t.Errorf("files that a node mounts (-want +got):\n%s", d)
		}
		if err := cli.CheckCertificates(&config.TLS{
			CA: filepath.Join(dirs["certs"], operator.CAFile), Cert: filepath.Join(dirs["certs"], operator.NodeFile),
			Key: filepath.Join(dirs["certs"], operator.NodeKeyFile), Name: config.DefaultTLSName,
		}); err != nil {
			t.Error(err)
		}
	}
	for name := range services {
		for _, v := range services.in(name).texts("volumes") {
			if name != "certs" && strings.HasPrefix(v, "authority:") {
				t.Errorf("%s mounts the key of the authority: %s", name, v)
			}
		}
	}
}

// Every image is built with the version that its nodes report, and a build without one fails;
// compose.yaml sets one.
func TestDeployImagesAreStamped(t *testing.T) {
	const stamp = "-X github.com/parleyrun/parley/internal/cli.stamped=$VERSION"
	for _, name := range []string{"Dockerfile", "Dockerfile.program"} {
		src, err := os.ReadFile(filepath.Join(deployRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\nARG VERSION\n", stamp, `RUN test -n "$VERSION" || `, "version=$VERSION", `--build-arg VERSION="$(git describe --tags --always --dirty)"`} {
			if !strings.Contains(string(src), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	src, err := os.ReadFile(filepath.Join("..", "..", "internal", "cli", "version.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(src), "\nvar stamped string\n") {
		t.Error("package internal/cli has no variable stamped for the linker")
	}
	file := documents(t, "compose.yaml")[0]
	for name, box := range file.in("services") {
		if b := (tree{"box": box}).in("box"); b["build"] != nil && b.at("build.args.VERSION") == nil {
			t.Errorf("compose.yaml builds the image of %s without a VERSION: %v", name, b["build"])
		}
	}
	chart := documents(t, filepath.Join("helm", "parley", "Chart.yaml"))[0]
	if got, want := chart["appVersion"], fmt.Sprint("v", chart["version"]); got != want {
		t.Errorf("appVersion of the chart: got %v, want %s", got, want)
	}
	nodes := documents(t, filepath.Join("kubernetes", "nodes.yaml"))[0]
	if got, want := nodes.at("spec.template.spec.containers.0.image"), fmt.Sprint("registry.example.com/parley:", chart["appVersion"]); got != want {
		t.Errorf("image of the manifests: got %v, want %s", got, want)
	}
	hooks := documents(t, filepath.Join("..", ".goreleaser.yaml"))[0].texts("before.hooks")
	if want := `grep -qx "appVersion: {{ .Tag }}" deploy/helm/parley/Chart.yaml`; !slices.Contains(hooks, want) {
		t.Errorf("a release does not compare its tag with the chart: hooks are %q, want %q", hooks, want)
	}
}

// TestDeployDockerfile checks the Dockerfile without building it.
func TestDeployDockerfile(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(deployRoot, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	module, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if !strings.Contains(text, "FROM golang:"+string(version[1])+"-") {
		t.Errorf("the image is not built with go %s", version[1])
	}
	command := regexp.MustCompile(`(?m)^CMD \[(.*)\]$`).FindStringSubmatch(text)
	if command == nil {
		t.Fatal("no command")
	}
	var args []string
	for part := range strings.SplitSeq(command[1], ",") {
		arg, err := strconv.Unquote(strings.TrimSpace(part))
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, arg)
	}
	if file := parsed(t, args); file != "/etc/parley/parley.yaml" {
		t.Errorf("reads %s", file)
	}
	for _, want := range []string{"\nUSER 65532:65532\n", "\nENTRYPOINT [\"parley\"]\n", "./cmd/parley\n", "--chown=65532:65532 /out/authority /etc/parley/authority", "--chown=65532:65532 /out/certs /etc/parley/certs"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// Every file of the examples is covered by a test here, and the program accepts the commands in the
// files and on the page.
func TestDeploy(t *testing.T) {
	var names []string
	err := filepath.WalkDir(deployRoot, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, relErr := filepath.Rel(deployRoot, path)
			names, err = append(names, filepath.ToSlash(name)), relErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	want := []string{
		"Dockerfile", "Dockerfile.dockerignore", "Dockerfile.program", "Dockerfile.program.dockerignore", "README.md", "clickhouse/grafana.xml", "compose.yaml", "grafana/parley-metrics.json", "grafana/parley.json",
		"grafana/provisioning/dashboards/parley.yaml", "grafana/provisioning/datasources/events.yaml",
		"helm/parley/.helmignore", "helm/parley/Chart.yaml", "helm/parley/files/alerts.yaml", "helm/parley/templates/_helpers.tpl", "helm/parley/templates/budget.yaml",
		"helm/parley/templates/config.yaml", "helm/parley/templates/ingress.yaml", "helm/parley/templates/monitoring.yaml",
		"helm/parley/templates/networkpolicy.yaml", "helm/parley/templates/nodes.yaml", "helm/parley/templates/service.yaml", "helm/parley/templates/serviceaccount.yaml",
		"helm/parley/values.schema.json", "helm/parley/values.yaml",
		"kubernetes/config.yaml", "kubernetes/nodes.yaml", "kubernetes/secrets.yaml", "kubernetes/single.yaml", "prometheus/alerts.yaml",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	commands := 0
	for _, name := range append(names, "../docs/operations.md", "../docs/deployment.md") {
		src, err := os.ReadFile(filepath.Join(deployRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^[ #$]*parley ([a-z][^#|\n]*)`).FindAllStringSubmatch(string(src), -1) {
			parsed(t, strings.Fields(m[1]))
			commands++
		}
	}
	if commands < 8 {
		t.Errorf("found %d commands; some must have been lost", commands)
	}
}
