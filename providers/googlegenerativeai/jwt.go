package googlegenerativeai

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"
)

// assertionLifetime is the time until an assertion expires, the longest that Google accepts.
const assertionLifetime = time.Hour

// assertion returns the JSON Web Token with which a service account requests an access token (RFC
// 7523). It is signed with RS256 (RFC 7518, section 3.3). An error means that the private key is
// invalid.
func (f *credentialFile) assertion(now time.Time) (string, error) {
	key, err := privateKey(f.PrivateKey)
	if err != nil {
		return "", err
	}
	head := struct {
		Algorithm string `json:"alg"`
		Type      string `json:"typ"`
		KeyID     string `json:"kid,omitempty"`
	}{"RS256", "JWT", f.PrivateKeyID}
	claims := struct {
		Issuer   string `json:"iss"`
		Scope    string `json:"scope"`
		Audience string `json:"aud"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}{f.ClientEmail, scope, f.TokenURI, now.Unix(), now.Add(assertionLifetime).Unix()}
	text := segment(head) + "." + segment(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func segment(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("googlegenerativeai: encode JWT segment: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// privateKey parses an RSA key in PEM: PKCS #8, or PKCS #1 in older credential files. Its errors do
// not contain the key.
func privateKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("private_key is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("private_key is neither PKCS #8 nor PKCS #1")
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("private_key is not an RSA key")
	}
	return key, nil
}
