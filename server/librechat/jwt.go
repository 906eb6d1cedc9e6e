package librechat

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"talaria/api"
)

// The claims that LibreChat makes, and how long it says that they are good for.
const (
	issuer      = "librechat"
	audience    = "codeapi"
	maxLifetime = 300 // seconds
	skew        = 30  // seconds that the two clocks may differ by
	maxJWT      = 16 << 10
)

// Key verifies tokens that a LibreChat has signed: an [ed25519.PublicKey] or an [*rsa.PublicKey].
type Key crypto.PublicKey

// ParseKeys reads public keys in PEM. Those of a file without one, or of another kind than LibreChat signs with, are an error.
func ParseKeys(text []byte) ([]Key, error) {
	var keys []Key
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("it has a %s, and only public keys belong there; openssl pkey -pubout makes one", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("it has a public key that is malformed: %w", err)
		}
		switch key.(type) {
		case ed25519.PublicKey, *rsa.PublicKey:
			keys = append(keys, key)
		default:
			return nil, fmt.Errorf("it has a public key of type %T; LibreChat signs with Ed25519 or RSA", key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it contains no PEM public key")
	}
	return keys, nil
}

// IsJWT reports whether a bearer token has the form of a JSON Web Token.
func IsJWT(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}

// claims are those that count here.
type claims struct {
	Issuer   string   `json:"iss"`
	Audience string   `json:"aud"`
	Subject  string   `json:"sub"`
	Tenant   string   `json:"tenant_id"`
	Issued   *float64 `json:"iat"`
	From     float64  `json:"nbf"`
	Until    *float64 `json:"exp"`
}

// Verify returns who a JSON Web Token says that its bearer is: the owner of the user's sessions, and the owner of what the tenant's
// users share. A token that is not valid now is unauthorized.
func Verify(token string, keys []Key, now time.Time) (owner, shared string, err error) {
	if len(keys) == 0 {
		return "", "", refuse("this server has no key for tokens of LibreChat; set fronts.librechat.jwt_keys")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxJWT {
		return "", "", refuse("the token is not a JSON Web Token")
	}
	var header struct {
		Alg string `json:"alg"`
	}
	var c claims
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || decodePart(parts[0], &header) != nil || decodePart(parts[1], &c) != nil {
		return "", "", refuse("the token is not a JSON Web Token")
	}
	if !signed(header.Alg, parts[0]+"."+parts[1], signature, keys) {
		return "", "", refuse("the token is not signed with a key of fronts.librechat.jwt_keys")
	}
	at := float64(now.Unix())
	switch {
	case c.Issuer != issuer || c.Audience != audience:
		return "", "", refuse("the token has the issuer %.80q and the audience %.80q, not %q and %q", c.Issuer, c.Audience, issuer, audience)
	case c.Subject == "" || c.Tenant == "":
		return "", "", refuse("the token must name a user and a tenant")
	case c.Until == nil || c.Issued == nil || *c.Until-*c.Issued > maxLifetime:
		return "", "", refuse("the token must say when it was issued and expire within %d s", maxLifetime)
	case *c.Until+skew < at:
		return "", "", refuse("the token has expired; if it is new, the clocks of the two machines differ")
	case c.From-skew > at || *c.Issued-skew > at:
		return "", "", refuse("the token is not valid yet; the clocks of the two machines differ")
	}
	return ownerOf(c.Tenant, c.Subject), ownerOf(c.Tenant), nil
}

func refuse(format string, args ...any) error {
	return api.Errorf(api.CodeUnauthorized, format, args...)
}

func decodePart(part string, v any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return api.UnmarshalLoose(text, v)
}

// signed reports whether one of the keys has made the signature, with the algorithm that belongs to its kind.
func signed(alg, text string, signature []byte, keys []Key) bool {
	for _, key := range keys {
		switch key := key.(type) {
		case ed25519.PublicKey:
			if alg == "EdDSA" && ed25519.Verify(key, []byte(text), signature) {
				return true
			}
		case *rsa.PublicKey:
			sum := sha256.Sum256([]byte(text))
			if alg == "RS256" && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil {
				return true
			}
		}
	}
	return false
}

// ownerOf names the owner of a tenant's or a user's sessions: "librechat", the tenant and the user, with colons in between. Parts that
// are long or have other characters are escaped, so that no two have the same name.
func ownerOf(parts ...string) string {
	name := "librechat"
	for _, part := range parts {
		name += ":" + escaped(part)
	}
	return name
}

// maxPart bounds a part of an owner's name, so that two fit into one.
const maxPart = 56

func escaped(part string) string {
	var b strings.Builder
	for _, c := range []byte(part) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > maxPart {
		sum := sha256.Sum256([]byte(part))
		return "." + base64.RawURLEncoding.EncodeToString(sum[:]) // no other name has a dot
	}
	return b.String()
}
