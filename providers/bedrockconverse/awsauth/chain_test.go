package awsauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
)

// services responds by method, address and, where relevant, credentials, and records the requests.
type services struct {
	answers map[string]string
	asked   []string
}

// RoundTrip implements http.RoundTripper.
func (s *services) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Method + " " + r.URL.String()
	if r.Body != nil {
		form, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		asked += " " + string(form)
	}
	for _, name := range []string{"Authorization", "X-Aws-Ec2-Metadata-Token"} {
		if shown, _, _ := strings.Cut(r.Header.Get(name), ", SignedHeaders"); shown != "" {
			asked += " by " + shown
		}
	}
	s.asked = append(s.asked, asked)
	answer, ok := s.answers[r.URL.String()]
	if !ok {
		return nil, errors.New("no route to host")
	}
	status := http.StatusOK
	if n, err := fmt.Sscanf(answer, "%d ", &status); n == 1 && err == nil {
		_, answer, _ = strings.Cut(answer, " ")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// Responses of services.
const (
	lentKeys = `{"Code":"Success","AccessKeyId":"lent","SecretAccessKey":"lent secret","Token":"lent token","Expiration":"2999-01-02T03:04:05Z"}`
	roleKeys = `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>` +
		`<AccessKeyId>role</AccessKeyId><SecretAccessKey>role secret</SecretAccessKey><SessionToken>role token</SessionToken><Expiration>2999-01-02T03:04:05Z</Expiration>` +
		`</Credentials></AssumeRoleResult></AssumeRoleResponse>`
	sts      = "https://sts.eu-west-1.amazonaws.com/"
	metadata = "http://169.254.169.254/latest/"
	roles    = metadata + "meta-data/iam/security-credentials/"
)

func webIdentityKeys() string {
	return strings.ReplaceAll(roleKeys, "AssumeRole", "AssumeRoleWithWebIdentity")
}

// write writes files into a new directory and returns its name.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// found is the result of a search for credentials.
type found struct {
	Source, ID, Secret, Token string
	Asked                     []string
	Err                       string
	Temporary                 bool
	// Refused is the unsupported setting of a profile.
	Refused string
}

// find searches for credentials. DIR in variables and files is replaced by a directory with the files,
// and back in the result.
func find(t *testing.T, env, files, answers map[string]string) found {
	t.Helper()
	dir := write(t, nil)
	for name, text := range files {
		text = strings.ReplaceAll(text, "DIR", dir)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &services{answers: answers}
	c := awsauth.NewChain(&awsauth.Options{
		Getenv: func(name string) string { return strings.ReplaceAll(env[name], "DIR", dir) },
		Client: &http.Client{Transport: s}, Vendor: filepath.Join(dir, "vendor"),
	})
	f := found{Source: c.Source()}
	if len(s.asked) != 0 {
		t.Errorf("source lookup: got requests %q", s.asked)
	}
	got, err := c.Credentials(t.Context(), "eu-west-1")
	f.ID, f.Secret, f.Token, f.Asked = got.AccessKeyID, got.SecretAccessKey, got.SessionToken, s.asked
	if err != nil {
		f.Err = strings.ReplaceAll(err.Error(), dir, "DIR")
	}
	var of *awsauth.SourceError
	f.Temporary = errors.As(err, &of) && of.Temporary
	var refused *awsauth.UnsupportedError
	if errors.As(err, &refused) {
		f.Refused = refused.Setting
	}
	return f
}

// TestSources covers every source of credentials.
// covers: providers/159, providers/162
func TestSources(t *testing.T) {
	type vars = map[string]string
	const none = `no AWS credentials found`
	session := []string{"PUT " + metadata + "api/token"}
	for name, tt := range map[string]struct {
		env, files, answers vars
		want                found
	}{
		"keys": {vars{"AWS_ACCESS_KEY_ID": " id ", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "p", "HOME": "DIR"}, nil, nil,
			found{Source: "AWS_ACCESS_KEY_ID + AWS_SECRET_ACCESS_KEY", ID: "id", Secret: "s", Token: "t"}},
		"half a key": {vars{"AWS_ACCESS_KEY_ID": "id", "AWS_EC2_METADATA_DISABLED": "TRUE"}, nil, nil, found{Err: none}},
		"relative service": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://other", "AWS_WEB_IDENTITY_TOKEN_FILE": "f"}, nil,
			vars{"http://169.254.170.2/v2/x": lentKeys},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ID: "lent", Secret: "lent secret", Token: "lent token", Asked: []string{"GET http://169.254.170.2/v2/x"}}},
		"full service": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t"}, nil,
			vars{"http://169.254.170.23/v1": lentKeys},
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", ID: "lent", Secret: "lent secret", Token: "lent token", Asked: []string{"GET http://169.254.170.23/v1 by t"}}},
		"token in a file": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://pod.example/", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "DIR/token", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t"},
			vars{"token": "of the file\n"}, vars{"https://pod.example/": lentKeys},
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", ID: "lent", Secret: "lent secret", Token: "lent token", Asked: []string{"GET https://pod.example/ by of the file"}}},
		"no token": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://pod.example/", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "DIR/token"}, nil, nil,
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", Err: "open DIR/token: no such file"}},
		"two lines of token": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://pod.example/", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\nb"}, nil, nil,
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", Err: "more than one line"}},
		"a service on the net": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://pod.example/"}, nil, nil,
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", Err: "neither https nor a loopback"}},
		"a service at a number": {vars{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://10.0.0.1/"}, nil, nil,
			found{Source: "AWS_CONTAINER_CREDENTIALS_FULL_URI", Err: "neither https nor a loopback"}},
		"service refuses": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, nil, vars{"http://169.254.170.2/x": `400 {"code":"InvalidPath","message":"sentences"}`},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/x"}, Err: "status 400 InvalidPath"}},
		"service fails": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, nil, vars{"http://169.254.170.2/x": `503 oh`},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/x"}, Err: "status 503", Temporary: true}},
		"service is busy": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, nil, vars{"http://169.254.170.2/x": `429 oh`},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/x"}, Err: "status 429", Temporary: true}},
		"no response": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "secret"}, nil, nil,
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/secret"}, Err: "request to 169.254.170.2 failed: no route to host", Temporary: true}},
		"no credentials": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, nil, vars{"http://169.254.170.2/x": `{"AccessKeyId":"a"}`},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/x"}, Err: "without credentials"}},
		"no JSON": {vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, nil, vars{"http://169.254.170.2/x": `{"SecretAccessKey":"hush"`},
			found{Source: "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Asked: []string{"GET http://169.254.170.2/x"}, Err: "not credentials JSON"}},
		"web identity": {vars{"AWS_WEB_IDENTITY_TOKEN_FILE": "DIR/jwt", "AWS_ROLE_ARN": "arn:r", "AWS_ROLE_SESSION_NAME": "s"}, vars{"jwt": "a.b.c\n"}, vars{sts: webIdentityKeys()},
			found{Source: "AWS_WEB_IDENTITY_TOKEN_FILE + AWS_ROLE_ARN", ID: "role", Secret: "role secret", Token: "role token",
				Asked: []string{"POST " + sts + " Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ar&RoleSessionName=s&Version=2011-06-15&WebIdentityToken=a.b.c"}}},
		"no role": {vars{"AWS_WEB_IDENTITY_TOKEN_FILE": "f"}, nil, nil, found{Source: "AWS_WEB_IDENTITY_TOKEN_FILE", Err: "AWS_ROLE_ARN is not set"}},
		"web identity refused": {vars{"AWS_WEB_IDENTITY_TOKEN_FILE": "DIR/jwt", "AWS_ROLE_ARN": "r", "AWS_ENDPOINT_URL_STS": "https://sts.example"}, vars{"jwt": "a.b.c"},
			vars{"https://sts.example": `400 <ErrorResponse><Error><Code>ExpiredToken</Code><Message>a.b.c is old</Message></Error></ErrorResponse>`},
			found{Source: "AWS_WEB_IDENTITY_TOKEN_FILE + AWS_ROLE_ARN", Err: "status 400 ExpiredToken",
				Asked: []string{"POST https://sts.example Action=AssumeRoleWithWebIdentity&RoleArn=r&RoleSessionName=parley&Version=2011-06-15&WebIdentityToken=a.b.c"}}},
		"instance": {vars{}, vars{"vendor": "Amazon EC2\n"}, vars{metadata + "api/token": "session", roles: "my role\n", roles + "my%20role": lentKeys},
			found{Source: "instance metadata", ID: "lent", Secret: "lent secret", Token: "lent token",
				Asked: append(session, "GET "+roles+" by session", "GET "+roles+"my%20role by session")}},
		"instance that is named": {vars{"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00:ec2::254]/"}, nil, nil,
			found{Source: "instance metadata", Asked: []string{"PUT http://[fd00:ec2::254]/latest/api/token"}, Err: "no route to host", Temporary: true}},
		"instance without a role": {vars{}, vars{"vendor": "Amazon EC2"}, vars{metadata + "api/token": "session", roles: ""},
			found{Source: "instance metadata", Asked: append(session, "GET "+roles+" by session"), Err: "without a role"}},
		"perhaps an instance": {vars{}, nil, vars{metadata + "api/token": "session", roles: "r", roles + "r": lentKeys},
			found{ID: "lent", Secret: "lent secret", Token: "lent token", Asked: append(session, "GET "+roles+" by session", "GET "+roles+"r by session")}},
		"no instance":     {vars{}, vars{"vendor": "somebody else"}, nil, found{Asked: session, Err: none}},
		"not to be asked": {vars{"AWS_EC2_METADATA_DISABLED": "true"}, vars{"vendor": "Amazon EC2"}, nil, found{Err: none}},
	} {
		t.Run(name, func(t *testing.T) { check(t, find(t, tt.env, tt.files, tt.answers), tt.want) })
	}
}

func check(t *testing.T, got, want found) {
	t.Helper()
	if want.Err != "" && strings.Contains(got.Err, want.Err) {
		want.Err = got.Err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, secret := range []string{"hush", "a.b.c", "sentences", "GET"} {
		if strings.Contains(got.Err, secret) {
			t.Errorf("error %q contains %q", got.Err, secret)
		}
	}
}

// Files of TestProfiles, as written by the vendor's own tools.
const (
	configFile = `
# a comment
[default]
region = eu-west-1 ; a comment
[profile keys]
aws_access_key_id=of the config
aws_secret_access_key = k # a comment
s3 =
  aws_access_key_id = nested
[ profile  "quoted" ]
AWS_Access_Key_ID = q
aws_secret_access_key = a#b;c
aws_session_token = qt
[profile role]
role_arn = arn:r
source_profile = keys
external_id = x
duration_seconds = 900
role_session_name = n
[profile chain]
role_arn = arn:chain
source_profile = role
[profile self]
role_arn = arn:self
source_profile = self
aws_access_key_id = own
aws_secret_access_key = o
[profile identity]
role_arn = arn:web
web_identity_token_file = DIR/jwt
[profile environment]
role_arn = arn:env
credential_source = Environment
[profile instance]
role_arn = arn:i
credential_source = Ec2InstanceMetadata
[profile container]
role_arn = arn:c
credential_source = EcsContainer
[profile odd]
role_arn = arn:o
credential_source = Moon
[profile loop]
role_arn = arn:l
source_profile = loop
[profile process]
credential_process = /bin/keys
[profile sso]
sso_session = s
[profile older-sso]
sso_start_url = https://start.example/
sso_account_id = 1
[profile login]
login_session = arn:l
[profile mfa]
role_arn = arn:m
source_profile = keys
mfa_serial = arn:mfa
[profile lost]
role_arn = arn:l
source_profile = missing
[profile bare]
region = eu-west-1
[sso-session s]
aws_access_key_id = no profile
[other thing]
x = y
`
	credentialsFile = `
aws_access_key_id = above all sections
[keys]
aws_access_key_id = of the credentials
[default]
aws_access_key_id = d
aws_secret_access_key = ds
[keys
aws_secret_access_key = of no section
`
)

// TestProfiles reads files of the vendor's own tools.
// covers: providers/159
func TestProfiles(t *testing.T) {
	type vars = map[string]string
	signed := func(id, form string) string {
		return "POST " + sts + " " + form + " by AWS4-HMAC-SHA256 Credential=" + id + "/20"
	}
	form := func(role, more string) string {
		return "Action=AssumeRole&" + more + "RoleArn=arn%3A" + role + "&RoleSessionName=parley&Version=2011-06-15"
	}
	for name, tt := range map[string]struct {
		profile string
		env     vars
		answers vars
		want    found
	}{
		"default":     {"", nil, nil, found{Source: `profile "default"`, ID: "d", Secret: "ds"}},
		"keys":        {"keys", nil, nil, found{ID: "of the credentials", Secret: "k"}},
		"quoted":      {"quoted", nil, nil, found{ID: "q", Secret: "a#b;c", Token: "qt"}},
		"role":        {"role", nil, vars{sts: roleKeys}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{signed("of the credentials", "Action=AssumeRole&DurationSeconds=900&ExternalId=x&RoleArn=arn%3Ar&RoleSessionName=n&Version=2011-06-15")}}},
		"chain":       {"chain", nil, vars{sts: roleKeys}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{signed("of the credentials", "Action=AssumeRole&DurationSeconds=900&ExternalId=x&RoleArn=arn%3Ar&RoleSessionName=n&Version=2011-06-15"), signed("role", form("chain", ""))}}},
		"self":        {"self", nil, vars{sts: roleKeys}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{signed("own", form("self", ""))}}},
		"identity":    {"identity", nil, vars{sts: webIdentityKeys()}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{"POST " + sts + " Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aweb&RoleSessionName=parley&Version=2011-06-15&WebIdentityToken=a.b.c"}}},
		"container":   {"container", vars{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "x"}, vars{"http://169.254.170.2/x": lentKeys, sts: roleKeys}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{"GET http://169.254.170.2/x", signed("lent", form("c", ""))}}},
		"instance":    {"instance", nil, vars{metadata + "api/token": "session", roles: "r", roles + "r": lentKeys, sts: roleKeys}, found{ID: "role", Secret: "role secret", Token: "role token", Asked: []string{"PUT " + metadata + "api/token", "GET " + roles + " by session", "GET " + roles + "r by session", signed("lent", form("i", ""))}}},
		"environment": {"environment", nil, nil, found{Err: `credential_source "Environment" unavailable`}},
		"odd":         {"odd", nil, nil, found{Err: `credential_source "Moon" unavailable`}},
		"loop":        {"loop", nil, nil, found{Err: "role chain too long"}},
		"process":     {"process", nil, nil, found{Err: `profile "process" has credential_process, which is not supported: put keys into the environment, as aws configure export-credentials --profile process --format env`, Refused: "credential_process"}},
		"sso":         {"sso", nil, nil, found{Err: "sso_session, which is not supported: log in by aws sso login, and put keys", Refused: "sso_session"}},
		"older sso":   {"older-sso", nil, nil, found{Err: "sso_start_url, which is not supported: log in by aws sso login, and put keys", Refused: "sso_start_url"}},
		"login":       {"login", nil, nil, found{Err: "login_session, which is not supported: log in by aws login, and put keys", Refused: "login_session"}},
		"mfa":         {"mfa", nil, nil, found{Err: "mfa_serial, which is not supported: put keys", Refused: "mfa_serial"}},
		"lost":        {"lost", nil, nil, found{Err: `profile "missing" not found in DIR/.aws/credentials or DIR/.aws/config`}},
		"bare":        {"bare", nil, nil, found{Err: "neither aws_access_key_id and aws_secret_access_key, nor role_arn"}},
		"unknown":     {"s", nil, nil, found{Err: `profile "s" not found`}},
		"refused":     {"role", nil, vars{sts: `403 <ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>`}, found{Err: "status 403 AccessDenied", Asked: []string{signed("of the credentials", "Action=AssumeRole&DurationSeconds=900&ExternalId=x&RoleArn=arn%3Ar&RoleSessionName=n&Version=2011-06-15")}}},
		"no XML":      {"role", nil, vars{sts: `{}`}, found{Err: "not credentials XML", Asked: []string{signed("of the credentials", "Action=AssumeRole&DurationSeconds=900&ExternalId=x&RoleArn=arn%3Ar&RoleSessionName=n&Version=2011-06-15")}}},
		"empty XML":   {"role", nil, vars{sts: `<AssumeRoleResponse/>`}, found{Err: "without credentials", Asked: []string{signed("of the credentials", "Action=AssumeRole&DurationSeconds=900&ExternalId=x&RoleArn=arn%3Ar&RoleSessionName=n&Version=2011-06-15")}}},
	} {
		t.Run(name, func(t *testing.T) {
			env := vars{"HOME": "DIR", "AWS_PROFILE": tt.profile}
			for name, v := range tt.env {
				env[name] = v
			}
			if tt.want.Source == "" {
				tt.want.Source = "AWS_PROFILE"
			}
			got := find(t, env, vars{".aws/config": configFile, ".aws/credentials": credentialsFile, "jwt": "a.b.c"}, tt.answers)
			for i, asked := range got.Asked {
				if begin, _, signed := strings.Cut(asked, "/20"); signed {
					got.Asked[i] = begin + "/20"
				}
			}
			check(t, got, tt.want)
		})
	}
}

// TestProfileFiles: the files may be elsewhere. Without a named profile they are optional.
// covers: providers/159
func TestProfileFiles(t *testing.T) {
	type vars = map[string]string
	const keys = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
	for name, tt := range map[string]struct {
		env, files vars
		want       found
	}{
		"elsewhere":  {vars{"AWS_SHARED_CREDENTIALS_FILE": "DIR/c"}, vars{"c": keys}, found{Source: `profile "default"`, ID: "a", Secret: "b"}},
		"config":     {vars{"AWS_CONFIG_FILE": "DIR/c"}, vars{"c": keys}, found{Source: `profile "default"`, ID: "a", Secret: "b"}},
		"windows":    {vars{"USERPROFILE": "DIR"}, vars{".aws/credentials": keys}, found{Source: `profile "default"`, ID: "a", Secret: "b"}},
		"no home":    {nil, nil, found{Err: "no AWS credentials"}},
		"a folder":   {vars{"AWS_CONFIG_FILE": "DIR"}, nil, found{Err: "no AWS credentials"}},
		"named":      {vars{"AWS_CONFIG_FILE": "DIR", "AWS_PROFILE": "p"}, nil, found{Source: "AWS_PROFILE", Err: "is a directory"}},
		"no profile": {vars{"AWS_PROFILE": "p"}, nil, found{Source: "AWS_PROFILE", Err: `profile "p" not found`}},
	} {
		t.Run(name, func(t *testing.T) {
			env := vars{"AWS_EC2_METADATA_DISABLED": "true"}
			for name, v := range tt.env {
				env[name] = v
			}
			check(t, find(t, env, tt.files, nil), tt.want)
		})
	}
}

// FuzzProfiles checks that arbitrary files are read, or rejected with a reason.
func FuzzProfiles(f *testing.F) {
	f.Add("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
	f.Add("[profile default]\nrole_arn=a\nsource_profile=default\n")
	f.Add("[\n=\n[]\n a = b\n[default]\ncredential_source = Environment\nrole_arn=a")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(dir, "config")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := awsauth.NewChain(&awsauth.Options{
			Getenv: func(name string) string {
				return map[string]string{"AWS_CONFIG_FILE": file, "AWS_PROFILE": "default", "AWS_EC2_METADATA_DISABLED": "true"}[name]
			},
			Client: &http.Client{Transport: &services{}}, Vendor: filepath.Join(dir, "vendor"),
		})
		got, err := c.Credentials(context.Background(), "eu-west-1")
		if err == nil && (got.AccessKeyID == "" || got.SecretAccessKey == "") || err != nil && err.Error() == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
