package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/config"
)

// checkDatabase compares the configuration of a node with the ClickHouse of compose.yaml.
func checkDatabase(t *testing.T, services tree, conf *config.Server) {
	t.Helper()
	want := &config.ClickHouse{
		Addresses: []string{"clickhouse:9000"}, Protocol: config.ProtocolNative, TTLDays: config.DefaultTTLDays,
		Database: fmt.Sprint(services.at("clickhouse.environment.CLICKHOUSE_DB")),
		Username: fmt.Sprint(services.at("clickhouse.environment.CLICKHOUSE_USER")),
		Password: fmt.Sprint(services.at("clickhouse.environment.CLICKHOUSE_PASSWORD")),
	}
	if d := cmp.Diff(want, conf.Events.ClickHouse); d != "" {
		t.Errorf("events go elsewhere (-database +configuration):\n%s", d)
	}
}

// checkBox checks the rules for every container of compose.yaml: an image of one version, existing
// volumes and files, and ports on loopback addresses only.
func checkBox(t *testing.T, file tree, name string) {
	t.Helper()
	box := file.in("services." + name)
	image := fmt.Sprint(box["image"])
	if box["build"] == nil && !regexp.MustCompile(`^[a-z/-]+:[A-Z0-9][A-Z0-9a-z.-]*[0-9][A-Za-z0-9.-]*$`).MatchString(image) {
		t.Errorf("%s has the image %s, want one version of it", name, image)
	}
	for _, port := range box.texts("ports") {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s can be reached from elsewhere: %s", name, port)
		}
	}
	for _, v := range box.texts("volumes") {
		from, _, _ := strings.Cut(v, ":")
		if strings.HasPrefix(from, ".") {
			if _, err := os.Stat(filepath.Join(deployRoot, from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s may write %s", name, from)
			}
		} else if _, ok := file.in("volumes")[from]; !ok {
			t.Errorf("%s uses the volume %s, which does not exist", name, from)
		}
	}
	// One-shot jobs have no health check.
	if _, once := map[string]bool{"bucket": true, "certs": true}[name]; !once && box.at("healthcheck.test") == nil {
		t.Errorf("%s has no health check", name)
	}
	for other := range box.in("depends_on") {
		if file.at("services."+other) == nil {
			t.Errorf("%s waits for %s, which does not exist", name, other)
		}
	}
}

// mountOf returns the path of an example file in a container.
func mountOf(t *testing.T, box tree, file string) string {
	t.Helper()
	for _, v := range box.texts("volumes") {
		if parts := strings.Split(v, ":"); parts[0] == "./"+file {
			return parts[1]
		}
	}
	t.Fatalf("%s is not mounted: %v", file, box["volumes"])
	return ""
}

// TestDeployGrafana compares data source, user and dashboard with compose.yaml. Package
// internal/analytics runs the queries.
func TestDeployGrafana(t *testing.T) {
	file := documents(t, "compose.yaml")[0]
	grafana, clickhouse := file.in("services.grafana"), file.in("services.clickhouse")
	if got := mountOf(t, grafana, "grafana/provisioning"); got != "/etc/grafana/provisioning" {
		t.Errorf("provisioning is at %s, where Grafana does not look", got)
	}
	source := documents(t, "grafana/provisioning/datasources/events.yaml")[0].in("datasources.0")
	const plugin = "grafana-clickhouse-datasource"
	if source["type"] != plugin || !strings.HasPrefix(fmt.Sprint(grafana.at("environment.GF_PLUGINS_PREINSTALL_SYNC")), plugin+"@") {
		t.Errorf("the data source is of type %v, the plugin is %v", source["type"], grafana.at("environment.GF_PLUGINS_PREINSTALL_SYNC"))
	}
	if source.at("jsonData.host") != "clickhouse" || source.at("jsonData.port") != 9000 || source.at("jsonData.defaultDatabase") != clickhouse.at("environment.CLICKHOUSE_DB") {
		t.Errorf("the data source is elsewhere: %v", source["jsonData"])
	}
	user := readerOf(t)
	variable := strings.TrimPrefix(fmt.Sprint(source.at("secureJsonData.password")), "$")
	if source.at("jsonData.username") != user.XMLName.Local || user.Password.FromEnv != variable {
		t.Errorf("the data source is user %v with the password %s, the server knows %+v", source.at("jsonData.username"), variable, user)
	}
	if got := grafana.at("environment." + variable); got == nil || got != clickhouse.at("environment."+variable) {
		t.Errorf("%s is %v for Grafana, %v for the server", variable, got, clickhouse.at("environment."+variable))
	}
	if want := []string{fmt.Sprintf("GRANT SELECT ON %v.*", clickhouse.at("environment.CLICKHOUSE_DB"))}; !slices.Equal(user.Grants, want) {
		t.Errorf("the user of the data source may %v, want %v", user.Grants, want)
	}
	if got := mountOf(t, clickhouse, "clickhouse/grafana.xml"); path.Dir(got) != "/etc/clickhouse-server/users.d" {
		t.Errorf("got the user in %s, which the server does not read", got)
	}
	folder := documents(t, "grafana/provisioning/dashboards/parley.yaml")[0].at("providers.0.options.path")
	if got := mountOf(t, grafana, "grafana/parley.json"); path.Dir(got) != folder || path.Ext(got) != ".json" {
		t.Errorf("the dashboard is at %s, Grafana looks in %v", got, folder)
	}
	src, err := os.ReadFile(filepath.Join(deployRoot, "grafana", "parley.json"))
	if err != nil || !json.Valid(src) {
		t.Errorf("the dashboard is not JSON: %v", err)
	}
}

// databaseUser is a user of a ClickHouse server.
type databaseUser struct {
	XMLName  xml.Name
	Password struct {
		FromEnv string `xml:"from_env,attr"`
	} `xml:"password"`
	Profile string   `xml:"profile"`
	Grants  []string `xml:"grants>query"`
}

// readerOf returns the only user of clickhouse/grafana.xml, which is read-only.
func readerOf(t *testing.T) databaseUser {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(deployRoot, "clickhouse", "grafana.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var conf struct {
		XMLName  xml.Name `xml:"clickhouse"`
		Profiles struct {
			All []struct {
				XMLName  xml.Name
				ReadOnly int `xml:"readonly"`
			} `xml:",any"`
		} `xml:"profiles"`
		Users struct {
			All []databaseUser `xml:",any"`
		} `xml:"users"`
	}
	if err := xml.Unmarshal(src, &conf); err != nil {
		t.Fatal(err)
	}
	if len(conf.Users.All) != 1 || len(conf.Profiles.All) != 1 {
		t.Fatalf("%d users and %d profiles, want one each", len(conf.Users.All), len(conf.Profiles.All))
	}
	user, profile := conf.Users.All[0], conf.Profiles.All[0]
	if user.Profile != profile.XMLName.Local || profile.ReadOnly != 2 {
		t.Errorf("the user has the profile %s, and %s has readonly %d", user.Profile, profile.XMLName.Local, profile.ReadOnly)
	}
	return user
}

// The configuration in docs/analytics.md is valid, and the commands of the page exist.
func TestAnalyticsPage(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(deployRoot, "..", "docs", "analytics.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(src)
	if block == nil {
		t.Fatal("it shows no configuration")
	}
	opts := program.Own.ConfigOptions()
	opts.Env = func(name string) (string, bool) { return "secret", name == "CLICKHOUSE_PASSWORD" }
	conf, err := config.Parse("parley.yaml", fmt.Appendf(nil, "agents: {echo: {mounts: [/agents/echo], model: demo/parrot}}\n%s", block[1]), opts)
	if err != nil {
		t.Fatal(err)
	}
	if e := conf.Events; e.ClickHouse == nil || e.ClickHouse.TTLDays != config.DefaultTTLDays || e.JSONL == nil || e.OTel == nil || !e.Stdout || !e.Live {
		t.Errorf("it shows %+v", e)
	}
	commands := regexp.MustCompile("`parley ([a-z][^`]*)`").FindAllSubmatch(src, -1)
	for _, m := range commands {
		cmd, rest, err := program.Root().Find(strings.Fields(string(m[1])))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || !cmd.HasParent() || cmd.HasSubCommands() {
			t.Errorf("parley %s: %v", m[1], err)
		}
	}
	if len(commands) < 5 {
		t.Errorf("it names %d commands; some must have been lost", len(commands))
	}
}
