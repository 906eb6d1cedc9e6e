package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers that authenticate a call, as the Standard Webhooks specification has them
// (https://www.standardwebhooks.com): the signature is HMAC-SHA256 over "ID.TIMESTAMP.BODY", in base64 behind "v1,".
// Signatures by several secrets are separated by spaces.
const (
	HeaderID        = "Webhook-Id"        // the call_id
	HeaderTimestamp = "Webhook-Timestamp" // seconds since 1970, when the request was signed
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is how old, or how far in the future, the time stamp of a request may be.
const Tolerance = 5 * time.Minute

const (
	secretPrefix  = "whsec_"
	versionPrefix = "v1,"
	minSecret     = 24 // bytes
	maxSecret     = 64
	maxSecrets    = 4
)

// ErrSignature is the error of a request whose signature is missing, wrong or too old.
var ErrSignature = errors.New("the signature is not valid")

// Secret signs calls.
type Secret struct{ key []byte }

// String hides the secret.
func (Secret) String() string { return secretPrefix + "…" }

// ParseSecrets reads the text of a secret file: one secret a line, "whsec_" and the base64 of 24 to 64 bytes. Calls are
// signed with all of them, so that a receiver accepts the old and the new one while a secret is being replaced.
func ParseSecrets(text string) ([]Secret, error) {
	var list []Secret
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		encoded, ok := strings.CutPrefix(line, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("a secret must be %q and the base64 of %d to %d bytes; "+
				`create one with: echo "%s$(openssl rand -base64 32)"`, secretPrefix, minSecret, maxSecret, secretPrefix)
		}
		list = append(list, Secret{key})
	}
	if len(list) == 0 || len(list) > maxSecrets {
		return nil, fmt.Errorf("%d secrets; give one, or up to %d while one is being replaced", len(list), maxSecrets)
	}
	return list, nil
}

func (s Secret) signature(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// sign sets the headers of a request.
func sign(h http.Header, secrets []Secret, id string, body []byte, now time.Time) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		signatures[i] = versionPrefix + base64.StdEncoding.EncodeToString(s.signature(id, timestamp, body))
	}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, strings.Join(signatures, " "))
}

// Verify checks that the server that holds the secret sent this body less than [Tolerance] ago. A receiver calls it with
// the body exactly as it came, before decoding it. The error is [ErrSignature] with what is wrong.
func Verify(secret Secret, h http.Header, body []byte, now time.Time) error {
	timestamp := h.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is %q, not a number of seconds", ErrSignature, HeaderTimestamp, timestamp)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > Tolerance || age < -Tolerance {
		return fmt.Errorf("%w: it was created more than %v before or after the current time", ErrSignature, Tolerance)
	}
	want := secret.signature(h.Get(HeaderID), timestamp, body)
	for _, one := range strings.Fields(h.Get(HeaderSignature)) {
		encoded, ok := strings.CutPrefix(one, versionPrefix)
		got, err := base64.StdEncoding.DecodeString(encoded)
		if ok && err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: no signature in %s was made with this secret", ErrSignature, HeaderSignature)
}
