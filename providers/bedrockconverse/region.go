package bedrockconverse

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// defaultRegion is signed for where nothing names a region.
const defaultRegion = "us-east-1"

var (
	// ownHost is a host of the vendor's own, which stands in base URLs for any region.
	ownHost = regexp.MustCompile(`^bedrock-runtime(-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)
	// modelARN is the ARN of a model or a profile, which is in one region.
	modelARN   = regexp.MustCompile(`^arn:aws[a-z-]*:bedrock:([a-z0-9-]+):`)
	regionForm = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// configured returns the region that a call is to be made in: that of an ARN, else that of
// the environment, "" if there is none.
func (e env) configured(m providers.Model) string {
	if arn := modelARN.FindStringSubmatch(m.ID); arn != nil {
		return arn[1]
	}
	return cmp.Or(e(envRegion), e(envDefaultRegion))
}

// region returns the region of a call to a host.
func (e env) region(m providers.Model, host string) string {
	region := e.configured(m)
	if own := ownHost.FindStringSubmatch(host); region == "" && own != nil {
		region = own[2]
	}
	return cmp.Or(region, defaultRegion)
}

// move sends a request for a host of the vendor's own to the region of the call, which it
// returns.
func (e env) move(r *http.Request, m providers.Model) (string, error) {
	region, err := e.moveURL(r.URL, m)
	r.Host = r.URL.Host
	return region, err
}

// locate implements providers.HTTPOptions.Locate.
func (e env) locate(m providers.Model, _ providers.Options) (string, error) {
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return "", fmt.Errorf("parse base url: %w", err)
	}
	_, err = e.moveURL(u, m)
	return u.String(), err
}

// moveURL changes a host of the vendor's own to that of the region of a call, which it
// returns.
func (e env) moveURL(u *url.URL, m providers.Model) (string, error) {
	region := e.region(m, u.Host)
	if !regionForm.MatchString(region) {
		return "", &providers.Error{Kind: providers.KindInvalidRequest, Err: fmt.Errorf("%q is no region; set %s to one, such as %s", region, envRegion, defaultRegion)}
	}
	own := ownHost.FindStringSubmatch(u.Host)
	if own == nil {
		return region, nil
	}
	fips, end := own[1], ".amazonaws.com"
	if e.on(envFIPS) {
		fips = "-fips"
	}
	if strings.HasPrefix(region, "cn-") {
		end += ".cn"
	}
	u.Host = "bedrock-runtime" + fips + "." + region + end
	return region, nil
}

// government reports whether a call is made in a region of the US government, whose models
// are behind those of others.
func (e env) government(m providers.Model) bool {
	host := ""
	if u, err := url.Parse(m.BaseURL); err == nil {
		host = u.Host
	}
	return strings.HasPrefix(m.ID, "us-gov.") || strings.HasPrefix(e.region(m, host), "us-gov-")
}
