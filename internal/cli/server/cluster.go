package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// checkCluster validates the configuration of a node that shares its bucket.
func checkCluster(file string, conf *config.Server, insecure bool) error {
	c := conf.Cluster
	switch {
	case c == nil:
		return fmt.Errorf("--insecure-cluster: %s has no section cluster; add one with listen, or omit the flag", file)
	case insecure && c.TLS != nil:
		return fmt.Errorf("--insecure-cluster: %s names certificates at cluster.tls; omit the flag, or remove the key", file)
	case insecure && !isLoopbackText(c.Listen):
		return fmt.Errorf("--insecure-cluster is for several nodes on one machine, and cluster.listen in %s is %s: "+
			"write a loopback address such as 127.0.0.1:7946, or create certificates with \"parley cluster certs certs\"", file, c.Listen)
	case !insecure && c.TLS == nil:
		return fmt.Errorf("%s: cluster has no tls, with which nodes authenticate each other: create certificates with \"parley cluster certs certs\" "+
			"and name them at cluster.tls; for several nodes on one machine use --insecure-cluster", file)
	case c.TLS != nil:
		if err := cli.CheckCertificates(c.TLS); err != nil {
			return fmt.Errorf("%s: cluster.tls: %w; \"parley cluster certs\" creates a valid pair", file, err)
		}
	}
	return nil
}

// isLoopbackText reports whether a configured address is a loopback address.
func isLoopbackText(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// clusterOptions returns the options of a node that shares its bucket, nil if it does not.
func clusterOptions(c *config.Cluster, insecure bool) *actors.ClusterOptions {
	if c == nil {
		return nil
	}
	o := &actors.ClusterOptions{
		Listen: c.Listen, Advertise: c.Advertise, Weight: c.Weight, Insecure: insecure,
		Heartbeat: c.Heartbeat, Suspect: c.Suspect, Fence: c.Fence,
	}
	if c.TLS != nil {
		o.TLS = &actors.ClusterTLS{CA: c.TLS.CA, Cert: c.TLS.Cert, Key: c.TLS.Key, Name: c.TLS.Name}
	}
	return o
}

// advertisedAddress returns the HTTP address of a node for users. For a listener on all addresses it
// contains the host that other nodes dial.
func advertisedAddress(conf *config.Server, at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() || conf.Cluster == nil {
		return at.String()
	}
	host, _, err := net.SplitHostPort(conf.Cluster.Advertise)
	if err != nil {
		return at.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// explainCluster adds the remedy to an error about the section cluster.
func explainCluster(conf *config.Server, err error) error {
	switch {
	case err == nil || conf.Cluster == nil:
		return err
	// The listening library returns only the text of the cause.
	case errors.Is(err, syscall.EADDRINUSE), strings.Contains(err.Error(), syscall.EADDRINUSE.Error()):
		return fmt.Errorf("%w; another process listens on %s: stop it, or set another address at cluster.listen", err, conf.Cluster.Listen)
	case errors.Is(err, syscall.EADDRNOTAVAIL), strings.Contains(err.Error(), syscall.EADDRNOTAVAIL.Error()):
		return fmt.Errorf("%w; this machine has no such address: correct cluster.listen", err)
	}
	return err
}

// clusterLines lists the other addresses of a node for the banner.
func clusterLines(conf *config.Server, s actors.Status, admin net.Addr) []string {
	var lines []string
	if conf.Cluster != nil {
		way := "without certificates"
		if conf.Cluster.TLS != nil {
			way = "with the certificate in " + conf.Cluster.TLS.Cert
		}
		lines = append(lines, fmt.Sprintf("Member %s; other nodes reach it at %s, %s.",
			s.Member, cmp.Or(s.Address, conf.Cluster.Advertise, conf.Cluster.Listen), way))
	}
	if admin != nil {
		pages := "healthz, readyz, metrics"
		if conf.Admin.Profiles {
			pages += ", debug/pprof/"
		}
		lines = append(lines, fmt.Sprintf("Health and metrics: %s/ (%s), without authentication.", localURL(admin), pages))
	}
	return lines
}
