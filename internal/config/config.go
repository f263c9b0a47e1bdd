package config

import (
	"net/netip"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// Defaults of parley.yaml.
const (
	DefaultListen = "127.0.0.1:3000"
	DefaultDir    = "./data"
)

// Server is a validated parley.yaml with defaults filled in.
type Server struct {
	// Listen is the address to listen on. Default 127.0.0.1:3000.
	Listen string
	// ListenGiven reports whether the file sets Listen.
	ListenGiven bool
	// PublicURL is the origin, and optionally a path prefix, at which clients reach the server. ""
	// means the scheme and host of each request.
	PublicURL string
	// TrustedProxies may set the scheme and host of a request by headers.
	TrustedProxies []netip.Prefix
	Limits         Limits
	Bucket         Bucket
	CORS           CORS
	Auth           Auth
	Drain          Drain
	// Console serves the console page; "parley dev" serves it in any case.
	Console bool
	// Cluster is nil if the node serves its bucket alone.
	Cluster *Cluster
	// StrictReads makes every read list the bucket for the newest batch.
	StrictReads bool
	// Beta is nil if clients of the beta line are not served.
	Beta     *Beta
	Admin    Admin
	Events   Events
	Webhooks Webhooks
	// Channels are the webhooks of platforms, in the order of the file.
	Channels []Channel
	// Providers are registered in addition to the built-in ones, and replace one of the same id. API
	// keys are resolved. Never nil.
	Providers map[string]providers.Registration
	// BlankKeys holds the providers whose apiKeyEnv names a variable that is unset or blank, with a
	// description of the variable. Other sources of a key apply to them. Never nil.
	BlankKeys map[string]string
	// Agents are those of the file and of the program, sorted by name. There is at least one, or a
	// workflow. The agents are owned by this value.
	Agents []Agent
	// Workflows are the names of the program's workflows, sorted.
	Workflows []string
}

// Beta configures the agents and paths for clients of the beta line.
type Beta struct {
	// Path is a valid mount.
	Path string
	// Agents and Workflows are sorted names; all of them by default.
	Agents, Workflows []string
}

// Limits bounds one request, the memory and disk of all requests, and admission. Zero means the
// default of the HTTP handler, or of the embedded bucket's volume.
type Limits struct {
	// BodyBytes limits a request body.
	BodyBytes int64
	// TextBytes limits the text of a delivery.
	TextBytes int64
	// Attachments limits the attachments of one delivery.
	Attachments int
	// SpoolBytes bounds the temporary files of all bodies.
	SpoolBytes int64
	// ReaderBytes bounds the pages that are being written to clients.
	ReaderBytes int64
	// FollowerBytes bounds the memory of conversations that are being read.
	FollowerBytes int64
	// IdleBytes bounds the memory of idle conversations.
	IdleBytes int64
	// MemoryBytes is the memory limit of the process; 0 uses that of GOMEMLIMIT, the container or the
	// machine.
	MemoryBytes int64
	// ReserveBytes is the part of a volume reserved for work in progress.
	ReserveBytes int64
}

// Bucket configures the storage of all durable data: a folder, or an S3-compatible endpoint. Exactly
// one of Dir and Endpoint is set.
type Bucket struct {
	// Dir is the folder of the embedded bucket; "" if Endpoint is set. A relative one is relative to
	// the working directory of the process.
	Dir string
	// Endpoint is host or host:port, without a scheme.
	Endpoint string
	// Name is the name of the bucket at the endpoint.
	Name string
	// Region is "" for the endpoint's default.
	Region string
	// Prefix is put before every key; "" or without a slash at either end.
	Prefix string
	// Secure selects https. Default true.
	Secure bool
	// AccessKey and SecretKey are resolved from the named variables. If both are empty, requests are
	// anonymous.
	AccessKey, SecretKey string
}

// CORS configures the pages that may use the server from a browser.
type CORS struct {
	// Origins are origins as browsers send them, or the single "*".
	Origins []string
	// Headers may be sent by the pages, and ExposeHeaders read, in addition to the server's own. The
	// names are valid.
	Headers, ExposeHeaders []string
	// Credentials allows cookies and other credentials of the browser. Origins then has no "*".
	Credentials bool
}

// MaxDrainDelay is the maximum delay of [Drain].
const MaxDrainDelay = 10 * time.Minute

// Drain configures the shutdown of a node.
type Drain struct {
	// Delay is how long a node serves requests during shutdown while it is not ready. Nil is the
	// default: 5 s for a node of a cluster, 0 otherwise and for "parley dev".
	Delay *time.Duration
}

// Auth configures the authentication of clients.
type Auth struct {
	// Bearer is the token every request must carry; "" means none.
	Bearer string
}

// Agent is an agent and its mounts. Without a mount only other agents reach it.
type Agent struct {
	Agent *agent.Agent
	// Mounts are valid, and unique among all agents of the file.
	Mounts []string
}

// Single is the validated file of "parley run": one agent and its providers.
type Single struct {
	Agent *agent.Agent
	// Providers and BlankKeys are as in Server.
	Providers map[string]providers.Registration
	BlankKeys map[string]string
}
