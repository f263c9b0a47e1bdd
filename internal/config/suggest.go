package config

import (
	"slices"
	"strings"
)

// unknownKey suggests a replacement for a key.
func unknownKey(name string, known []field) fault {
	f := fault{problem: "the key is unknown"}
	var names []string
	for _, k := range known {
		names = append(names, k.name)
	}
	if isSecret(name) {
		env := "the key that ends in Env: apiKeyEnv of a provider, accessKeyEnv and secretKeyEnv of the bucket, passwordEnv of clickhouse, secretEnv of a channel, bearerEnv of auth"
		if i := slices.IndexFunc(names, func(n string) bool { return secretFor(n, name) }); i >= 0 {
			env = names[i]
		}
		f.problem = "the key is unknown; secrets do not belong in this file"
		f.remedy = "put the secret into an environment variable and name it with " + env
		return f
	}
	if near := nearest(name, names); near != "" {
		f.remedy = "did you mean " + near + "?"
		return f
	}
	f.remedy = "remove it, or use one of " + strings.Join(names, ", ")
	return f
}

// folded normalizes spelling variants of a key.
func folded(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(name), "-", ""), "_", "")
}

// isSecret reports whether a key is for a secret.
func isSecret(name string) bool {
	switch folded(name) {
	case "apikey", "key", "accesskey", "accesskeyid", "awsaccesskeyid", "secretkey", "secretaccesskey", "awssecretaccesskey",
		"secret", "token", "bearer", "bearertoken", "authtoken", "password":
		return true
	}
	return false
}

// secretFor reports whether a known key names the variable of a secret.
func secretFor(known, secret string) bool {
	base, ok := strings.CutSuffix(known, "Env")
	if !ok {
		return false
	}
	base, secret = strings.ToLower(base), folded(secret)
	switch secret {
	case "accesskeyid", "awsaccesskeyid":
		return base == "accesskey"
	case "secret", "secretaccesskey", "awssecretaccesskey":
		return base == "secretkey"
	case "token", "bearertoken", "authtoken", "password":
		return base == "bearer" || base == "apikey"
	case "key":
		return base == "apikey"
	}
	return base == secret
}

// nearest returns the most similar candidate, or "".
func nearest(name string, candidates []string) string {
	best, found := 0, ""
	name = folded(name)
	if len(name) > 64 {
		return ""
	}
	limit := min(max(len(name)/4, 1), 3)
	for _, c := range candidates {
		other := folded(c)
		if len(other)-len(name) > limit || len(name)-len(other) > limit {
			continue
		}
		if d := distance(name, other); d <= limit && (found == "" || d < best) {
			best, found = d, c
		}
	}
	return found
}

// distance is the edit distance of a and b with insertions, deletions, replacements and swaps of
// adjacent characters.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			replace := 1
			if x[i-1] == y[j-1] {
				replace = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+replace)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
