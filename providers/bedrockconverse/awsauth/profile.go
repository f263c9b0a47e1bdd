package awsauth

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxRoles bounds the chain of profiles that assume roles through one another.
const maxRoles = 8

// fromProfile returns the source of the profile. Without AWS_PROFILE there is none if the profile
// "default" has no credentials.
func (c *Chain) fromProfile(region string) (source, bool, error) {
	name, shown := c.env(envProfile), envProfile
	named := name != ""
	if !named {
		name, shown = "default", `profile "default"`
	}
	all, err := c.profiles()
	if err != nil {
		if !named {
			err = nil // the files are optional
		}
		return source{name: shown}, false, err
	}
	if !named && !hasCredentials(all[name]) {
		return source{}, false, nil
	}
	s, err := c.profile(shown, region, name, all, 0)
	s.name = shown
	return s, err == nil, err
}

// hasCredentials reports whether a profile has credentials.
func hasCredentials(settings map[string]string) bool {
	return settings["aws_access_key_id"] != "" || settings["role_arn"] != "" || refused(settings) != ""
}

// refused returns the unsupported setting of a profile, or "".
func refused(settings map[string]string) string {
	for _, key := range []string{"credential_process", "sso_session", "sso_start_url", "login_session", "mfa_serial"} {
		if settings[key] != "" {
			return key
		}
	}
	return ""
}

// profile returns the source of a profile; shown is its name in messages.
func (c *Chain) profile(shown, region, name string, all map[string]map[string]string, depth int) (source, error) {
	settings, ok := all[name]
	if !ok {
		credentials, config := c.files()
		return source{}, fmt.Errorf("profile %q not found in %s or %s", name, credentials, config)
	}
	if depth > maxRoles {
		return source{}, fmt.Errorf("profile %q: role chain too long", name)
	}
	keys := Credentials{AccessKeyID: settings["aws_access_key_id"], SecretAccessKey: settings["aws_secret_access_key"], SessionToken: settings["aws_session_token"]}
	own := keys.AccessKeyID != "" && keys.SecretAccessKey != ""
	role, from, refused := settings["role_arn"], settings["source_profile"], refused(settings)
	switch {
	case own && role == "":
		return source{keys: keys}, nil
	case refused != "":
		return source{}, &UnsupportedError{Profile: name, Setting: refused}
	case role != "" && settings["web_identity_token_file"] != "":
		return c.identity(shown, region, identity{settings["web_identity_token_file"], role, settings["role_session_name"]}), nil
	case role != "" && from == name && own:
		return c.role(shown, region, source{keys: keys}, settings), nil
	case role != "" && from != "":
		of, err := c.profile(shown, region, from, all, depth+1)
		return c.role(shown, region, of, settings), err
	case role != "" && settings["credential_source"] != "":
		of, err := c.credentialSource(settings["credential_source"])
		return c.role(shown, region, of, settings), err
	}
	return source{}, fmt.Errorf("profile %q has neither aws_access_key_id and aws_secret_access_key, nor role_arn with a source", name)
}

// credentialSource returns the source of a credential_source value. "Environment" is not handled,
// since keys of the environment precede all profiles.
func (c *Chain) credentialSource(word string) (s source, err error) {
	ok := false
	switch word {
	case "EcsContainer":
		s, ok, err = c.fromContainer()
	case "Ec2InstanceMetadata":
		s, ok = c.fromInstance()
	}
	if !ok && err == nil {
		err = fmt.Errorf("credential_source %q unavailable; use EcsContainer or Ec2InstanceMetadata", word)
	}
	return s, err
}

// files returns the names of the two files.
func (c *Chain) files() (credentials, config string) {
	if home := cmp.Or(c.env("HOME"), c.env("USERPROFILE")); home != "" {
		credentials, config = filepath.Join(home, ".aws", "credentials"), filepath.Join(home, ".aws", "config")
	}
	return cmp.Or(c.env("AWS_SHARED_CREDENTIALS_FILE"), credentials), cmp.Or(c.env("AWS_CONFIG_FILE"), config)
}

// profiles returns the settings of all profiles by name. The credentials file takes precedence.
func (c *Chain) profiles() (map[string]map[string]string, error) {
	credentials, config := c.files()
	all := map[string]map[string]string{}
	for _, file := range []string{config, credentials} {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for name, settings := range parseProfiles(string(text), file == config) {
			if all[name] == nil {
				all[name] = map[string]string{}
			}
			maps.Copy(all[name], settings)
		}
	}
	return all, nil
}

// parseProfiles reads sections "[name]", or "[profile name]" in the configuration file, with lines
// "key = value". Other lines are ignored, including indented ones, which are nested settings.
func parseProfiles(text string, config bool) map[string]map[string]string {
	all := map[string]map[string]string{}
	var section map[string]string
	for line := range strings.Lines(text) {
		if line[0] == ' ' || line[0] == '\t' {
			continue
		}
		line = strings.TrimSpace(withoutComment(line))
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = nil
			if name, ok = profileName(name, config); ok {
				section = map[string]string{}
				if all[name] != nil {
					section = all[name]
				}
				all[name] = section
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && section != nil {
			section[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return all
}

func withoutComment(line string) string {
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
		return ""
	}
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		line, _, _ = strings.Cut(line, mark)
	}
	return line
}

// profileName reads the name of a section.
func profileName(s string, config bool) (string, bool) {
	s, _, ok := strings.Cut(s, "]")
	fields := strings.Fields(s)
	switch {
	case !ok || len(fields) == 0:
		return "", false
	case !config || slices.Equal(fields, []string{"default"}):
		return strings.Join(fields, " "), true
	}
	return strings.Trim(strings.Join(fields[1:], " "), `"`), fields[0] == "profile" && len(fields) > 1
}
