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

// defaultRegion is used for signatures if no region is configured.
const defaultRegion = "us-east-1"

var (
	// ownHost matches the vendor's host of any region.
	ownHost = regexp.MustCompile(`^bedrock-runtime(-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)
	// modelARN matches the ARN of a model or profile, which includes a region.
	modelARN   = regexp.MustCompile(`^arn:aws[a-z-]*:bedrock:([a-z0-9-]+):`)
	regionForm = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// configured returns the configured region of a call: that of an ARN, else that of the environment, or
// "".
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

// move changes the vendor's host of a request to the region of the call and returns the region.
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

// moveURL changes the vendor's host to the region of a call and returns the region.
func (e env) moveURL(u *url.URL, m providers.Model) (string, error) {
	region := e.region(m, u.Host)
	if !regionForm.MatchString(region) {
		return "", &providers.Error{Kind: providers.KindInvalidRequest, Err: fmt.Errorf("%q is not a region; set %s to one, such as %s", region, envRegion, defaultRegion)}
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

// government reports whether the region is one of the US government, which gets models later.
func (e env) government(m providers.Model) bool {
	host := ""
	if u, err := url.Parse(m.BaseURL); err == nil {
		host = u.Host
	}
	return strings.HasPrefix(m.ID, "us-gov.") || strings.HasPrefix(e.region(m, host), "us-gov-")
}
