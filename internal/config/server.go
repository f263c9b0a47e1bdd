package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// server reads a parley.yaml.
func (r *reader) server(root value) *Server {
	s := &Server{
		Listen:    DefaultListen,
		Bucket:    Bucket{Dir: DefaultDir, Secure: true},
		Events:    Events{Live: true},
		Providers: map[string]providers.Registration{},
		BlankKeys: r.blankKeys,
	}
	r.fields(root, []field{
		{name: "listen", example: DefaultListen, read: r.text(&s.Listen, checkListen)},
		{name: "publicUrl", example: "https://agents.example.com", read: r.text(&s.PublicURL, checkURL)},
		{name: "trustedProxies", example: "[10.0.0.0/8]", read: r.networks(&s.TrustedProxies)},
		{name: "limits", example: "{attachments: 16}", read: r.limits(&s.Limits)},
		{name: "bucket", example: "{dir: ./data}", read: r.bucket(&s.Bucket)},
		{name: "cors", example: "{origins: []}", read: r.cors(&s.CORS)},
		{name: "auth", example: "{bearerEnv: PARLEY_TOKEN}", read: func(v value) {
			r.fields(v, []field{{name: "bearerEnv", example: "PARLEY_TOKEN", read: r.variable(&s.Auth.Bearer)}})
		}},
		{name: "drain", example: "{delay: 5s}", read: func(v value) {
			r.fields(v, []field{{name: "delay", example: "5s", read: r.within(MaxDrainDelay, &s.Drain.Delay)}})
		}},
		{name: "console", example: "true", read: r.truth(func(t bool) { s.Console = t })},
		{name: "cluster", example: "{listen: \"10.0.0.5:7946\"}", read: r.cluster(&s.Cluster)},
		{name: "strictReads", example: "true", read: r.truth(func(t bool) { s.StrictReads = t })},
		{name: "beta", example: "{path: /beta}", read: r.beta(&s.Beta)},
		{name: "channels", example: "{bot: {kind: slack, agent: echo, secretEnv: SLACK_SIGNING_SECRET}}", read: r.channels(&s.Channels)},
		{name: "admin", example: "{listen: \"127.0.0.1:9464\"}", read: r.admin(&s.Admin)},
		{name: "events", example: "{jsonl: {file: events.jsonl}}", read: r.events(&s.Events)},
		{name: "webhooks", example: "{allow: [hooks.example.com]}", read: r.webhooks(&s.Webhooks)},
		{name: "providers", example: "{local: {api: openai-completions, baseUrl: \"http://127.0.0.1:9000/v1\"}}", read: r.providers(s.Providers)},
		{name: "agents", example: "{echo: {mounts: [/agents/echo], model: openai/gpt-5}}", read: r.agents(&s.Agents), required: len(r.opts.Agents)+len(r.opts.Workflows) == 0},
	})
	r.complete(&s.Agents, (*path)(nil).key("agents"))
	slices.SortFunc(s.Agents, func(a, b Agent) int { return strings.Compare(a.Agent.Name, b.Agent.Name) })
	s.ListenGiven = r.written(root, "listen")
	r.shared(root)
	r.ports(root, s)
	s.Workflows = slices.Sorted(slices.Values(r.opts.Workflows))
	r.betaNames(root, s)
	r.channelAgents(root, s)
	for _, a := range s.Agents {
		r.define(a.Agent, (*path)(nil).key("agents").key(a.Agent.Name), s.Providers)
	}
	return s
}

func (r *reader) beta(dst **Beta) func(value) {
	return func(v value) {
		b := &Beta{}
		r.fields(v, []field{
			{name: "path", example: "/beta", read: r.text(&b.Path, checkMount), required: true},
			{name: "agents", example: "[echo]", read: r.texts(&b.Agents)},
			{name: "workflows", example: "[nightly]", read: r.texts(&b.Workflows)},
		})
		*dst = b
	}
}

// betaNames checks the agents and workflows of the beta line. If none is named, it sets all.
func (r *reader) betaNames(root value, s *Server) {
	if s.Beta == nil {
		return
	}
	var agents []string
	for _, a := range s.Agents {
		agents = append(agents, a.Agent.Name)
	}
	at, _ := r.given(root, "beta")
	named := func(key string, names *[]string, all []string, desc, remedy string) {
		for _, name := range *names {
			if !slices.Contains(all, name) {
				list, _ := r.given(at, key)
				r.blame(list, fault{"names the unknown " + desc + " " + quote(name), remedy})
			}
		}
		if len(*names) == 0 {
			*names = slices.Clone(all)
		}
		slices.Sort(*names)
	}
	named("agents", &s.Beta.Agents, agents, "agent", "name agents of the key agents, or leave the list out for all of them")
	named("workflows", &s.Beta.Workflows, s.Workflows, "workflow", "name workflows of the program, or leave the list out for all of them")
}

func (r *reader) networks(dst *[]netip.Prefix) func(value) {
	return func(v value) {
		var texts []string
		r.texts(&texts, checkNetwork)(v)
		for _, t := range texts {
			*dst = append(*dst, netip.MustParsePrefix(t))
		}
	}
}

func (r *reader) limits(dst *Limits) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "bodyBytes", example: "268435456", read: r.whole(func(n int64) { dst.BodyBytes = n })},
			{name: "textBytes", example: "4194304", read: r.whole(func(n int64) { dst.TextBytes = n })},
			{name: "attachments", example: "16", read: r.whole(func(n int64) { dst.Attachments = int(n) })},
			{name: "spoolBytes", example: "1073741824", read: r.whole(func(n int64) { dst.SpoolBytes = n })},
			{name: "readerBytes", example: "134217728", read: r.whole(func(n int64) { dst.ReaderBytes = n })},
			{name: "followerBytes", example: "134217728", read: r.whole(func(n int64) { dst.FollowerBytes = n })},
			{name: "idleBytes", example: "134217728", read: r.whole(func(n int64) { dst.IdleBytes = n })},
			{name: "memoryBytes", example: "536870912", read: r.whole(func(n int64) { dst.MemoryBytes = n })},
			{name: "reserveBytes", example: "1073741824", read: r.whole(func(n int64) { dst.ReserveBytes = n })},
		})
	}
}

func (r *reader) cors(dst *CORS) func(value) {
	return func(v value) {
		r.fields(v, []field{
			{name: "origins", example: "[https://app.example.com]", read: r.origins(&dst.Origins)},
			{name: "headers", example: "[X-Tenant]", read: r.texts(&dst.Headers, checkHeaderName)},
			{name: "exposeHeaders", example: "[X-Request-Id]", read: r.texts(&dst.ExposeHeaders, checkHeaderName)},
			{name: "credentials", example: "true", read: r.truth(func(t bool) { dst.Credentials = t })},
		})
		if dst.Credentials && slices.Contains(dst.Origins, "*") {
			key, _ := r.given(v, "credentials")
			r.blameKey(key, fault{`is set with the origin "*", but browsers send no credentials to a server that allows every page`, "list the origins, or remove it"})
		}
	}
}

func (r *reader) origins(dst *[]string) func(value) {
	return func(v value) {
		r.texts(dst, checkOrigin)(v)
		if len(*dst) > 1 && slices.Contains(*dst, "*") {
			r.blame(v, fault{`"*" is listed with other origins`, `keep the "*" alone to allow every page, or remove it`})
		}
	}
}

func (r *reader) bucket(dst *Bucket) func(value) {
	return func(v value) {
		if !r.is(v, mapping) {
			return
		}
		b := Bucket{Secure: true}
		r.fields(v, []field{
			{name: "dir", example: DefaultDir, read: r.text(&b.Dir, checkDir)},
			{name: "endpoint", example: "s3.example.com", read: r.text(&b.Endpoint, checkEndpoint)},
			{name: "name", example: "conversations", read: r.text(&b.Name, checkBucketName)},
			{name: "region", example: "eu-central-1", read: r.text(&b.Region, checkRegion)},
			{name: "prefix", example: "parley", read: r.text(&b.Prefix, checkPrefix)},
			{name: "secure", example: "true", read: r.truth(func(t bool) { b.Secure = t })},
			{name: "accessKeyEnv", example: "AWS_ACCESS_KEY_ID", read: r.variable(&b.AccessKey)},
			{name: "secretKeyEnv", example: "AWS_SECRET_ACCESS_KEY", read: r.variable(&b.SecretKey)},
		})
		r.bucketKind(v)
		*dst = b
	}
}

// bucketKind checks that a bucket is either a folder or a complete endpoint.
func (r *reader) bucketKind(v value) {
	dir, endpoint := r.written(v, "dir"), r.written(v, "endpoint")
	if !dir && !endpoint {
		r.blameKey(v, fault{"has neither dir nor endpoint", "add dir: ./data, or endpoint and name for an S3-compatible store"})
		return
	}
	if endpoint && dir {
		other, _ := r.given(v, "endpoint")
		r.blameKey(other, fault{"is set in addition to dir, but a bucket is either a folder or at an endpoint", "keep dir for a folder, or endpoint and name for an S3-compatible store"})
		return
	}
	if dir {
		for _, name := range []string{"name", "region", "prefix", "secure", "accessKeyEnv", "secretKeyEnv"} {
			if r.written(v, name) {
				other, _ := r.given(v, name)
				r.blameKey(other, fault{"belongs to an endpoint, but the bucket is a folder", "remove it, or write endpoint in place of dir"})
			}
		}
		return
	}
	if !r.written(v, "name") {
		r.missing(v, "name", "conversations")
	}
	if access, secret := r.written(v, "accessKeyEnv"), r.written(v, "secretKeyEnv"); access != secret {
		lacks, example := "secretKeyEnv", "AWS_SECRET_ACCESS_KEY"
		if secret {
			lacks, example = "accessKeyEnv", "AWS_ACCESS_KEY_ID"
		}
		r.missing(v, lacks, example)
	}
}

// written reports whether a known key is present and not the empty text.
func (r *reader) written(v value, name string) bool {
	child, ok := r.given(v, name)
	return ok && (child.node.kind != text || child.node.text != "")
}
