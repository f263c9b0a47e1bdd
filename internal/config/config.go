package config

import (
	"net/netip"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
)

// Defaults of what parley.yaml leaves out.
const (
	DefaultListen = "127.0.0.1:3000"
	DefaultDir    = "./data"
)

// Server is what parley.yaml says, checked and with defaults filled in.
type Server struct {
	// Listen is the address to listen on. Default 127.0.0.1:3000.
	Listen string
	// ListenGiven tells that the file has it.
	ListenGiven bool
	// PublicURL is the origin, and possibly a path prefix, under which clients
	// reach the server; "" means the scheme and host of each request.
	PublicURL string
	// TrustedProxies may say under which scheme and host they were reached.
	TrustedProxies []netip.Prefix
	Limits         Limits
	Bucket         Bucket
	CORS           CORS
	Auth           Auth
	Drain          Drain
	// Console serves the page of the console beside the agents; "parley dev" does so without it.
	Console bool
	// Cluster is nil if the node serves its bucket alone.
	Cluster *Cluster
	// StrictReads makes every read ask the bucket for the newest batch.
	StrictReads bool
	// Beta is nil if clients of the beta line are not served.
	Beta     *Beta
	Admin    Admin
	Events   Events
	Webhooks Webhooks
	// Channels are ways in from platforms, in the order of the file.
	Channels []Channel
	// Providers are registered beside the built-in ones, in place of one of the
	// same id. API keys are resolved. Never nil.
	Providers map[string]providers.Registration
	// BlankKeys are the providers whose apiKeyEnv names a variable that is not set or
	// blank, with words for that variable: other sources of a key count. Never nil.
	BlankKeys map[string]string
	// Agents are those of the file and of the program, sorted by name; there is at least
	// one, or a workflow. They are this value's.
	Agents []Agent
	// Workflows are the names of those of the program, sorted.
	Workflows []string
}

// Beta says where clients of the beta line find the agents.
type Beta struct {
	// Path is well formed, as a mount.
	Path string
	// Agents and Workflows are names of them, sorted; all of them unless the file says which.
	Agents, Workflows []string
}

// Limits bound what one request may bring, what all of them hold, and when one may come.
// Zero means the default of the HTTP handler, or of the embedded bucket's room.
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
	// FollowerBytes bounds what conversations hold that are read.
	FollowerBytes int64
	// IdleBytes bounds what conversations occupy with which nothing happens.
	IdleBytes int64
	// MemoryBytes is what the process may occupy, 0 what GOMEMLIMIT, the container or the
	// machine says.
	MemoryBytes int64
	// ReserveBytes is how much of a volume is kept for work under way.
	ReserveBytes int64
}

// Bucket is where everything durable lives: a folder, or an S3-compatible
// endpoint. Exactly one of Dir and Endpoint is set.
type Bucket struct {
	// Dir is the folder of the embedded bucket; "" if Endpoint is set. A relative
	// one is relative to the working directory of the process.
	Dir string
	// Endpoint is host or host:port, without a scheme.
	Endpoint string
	// Name is the name of the bucket at the endpoint.
	Name string
	// Region is "" for the endpoint's default.
	Region string
	// Prefix is put before every key; "" or without a slash at either end.
	Prefix string
	// Secure says whether the endpoint speaks https. Default true.
	Secure bool
	// AccessKey and SecretKey are resolved from the named variables; both empty
	// means anonymous requests.
	AccessKey, SecretKey string
}

// CORS says which pages may use the server from a browser.
type CORS struct {
	// Origins are origins as browsers send them, or the single "*".
	Origins []string
	// Headers may be sent by the pages, and ExposeHeaders read, in addition to those that the
	// server has itself. The names are well formed.
	Headers, ExposeHeaders []string
	// Credentials allows cookies and other credentials of the browser. Origins then has no "*".
	Credentials bool
}

// MaxDrainDelay is the longest delay of [Drain].
const MaxDrainDelay = 10 * time.Minute

// Drain configures the end of a node.
type Drain struct {
	// Delay is for how long a node that was asked to end serves requests while it is not
	// ready. Nil is the default: 5 s for a node of a cluster, 0 for others and for
	// "parley dev".
	Delay *time.Duration
}

// Auth says who may use the server.
type Auth struct {
	// Bearer is the token every request must carry; "" means none.
	Bearer string
}

// Agent is one agent and where it is mounted; without a mount it is reached by
// other agents only.
type Agent struct {
	Agent *agent.Agent
	// Mounts are well formed, and unique among all agents of the file.
	Mounts []string
}

// Single is what the file of "parley run" says: one agent and what it needs.
type Single struct {
	Agent *agent.Agent
	// Providers and BlankKeys are as in Server.
	Providers map[string]providers.Registration
	BlankKeys map[string]string
}
