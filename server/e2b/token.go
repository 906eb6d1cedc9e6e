package e2b

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/session"
)

// TokenPrefix is how the token of a single sandbox begins.
const TokenPrefix = "sbx_"

// Access is what the token of a sandbox allows: everything in that one session.
type Access struct {
	Owner   string
	Session string
	Token   string
}

// token returns the token that authorises for this sandbox alone. It names the session, whose server-made id is in its code, so
// that it ends with the session even where a later one has the same name.
func (h *Handler) token(owner string, s *session.Session) string {
	id := s.ID()
	return TokenPrefix + encode(owner) + "." + encode(id) + "." + h.code(owner, id, s.Serial())
}

func (h *Handler) code(owner, id, serial string) string {
	mac := hmac.New(sha256.New, h.Key)
	for _, part := range []string{"e2b sandbox", owner, id, serial} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return encode(string(mac.Sum(nil)))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// Recognize returns what the token of a sandbox allows. A token that allows nothing, or nothing any more, fails with
// session_not_found.
func (h *Handler) Recognize(token string) (Access, error) {
	parts := strings.Split(strings.TrimPrefix(token, TokenPrefix), ".")
	if len(parts) != 3 || len(token) > 1024 {
		return Access{}, errNoSandbox("")
	}
	owner, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	id, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	if err1 != nil || err2 != nil || !api.ValidID(string(id)) {
		return Access{}, errNoSandbox("")
	}
	s, err := h.Sessions.Get(string(owner), string(id))
	if err != nil {
		return Access{}, errNoSandbox(string(id))
	}
	defer s.Release()
	if subtle.ConstantTimeCompare([]byte(parts[2]), []byte(h.code(string(owner), string(id), s.Serial()))) != 1 {
		return Access{}, errNoSandbox(string(id))
	}
	return Access{Owner: string(owner), Session: string(id), Token: token}, nil
}

// Signed finds the sandbox whose token has signed the URL of a file. The URL does not name the sandbox, so the signatures of
// all of them are compared. It fails with unauthorized if none has.
func (h *Handler) Signed(ctx context.Context, method string, query url.Values) (Access, error) {
	invalid := api.Errorf(api.CodeUnauthorized, "the signature is invalid or has expired; create another URL with the SDK")
	operation := "write"
	if method == "GET" || method == "HEAD" {
		operation = "read"
	}
	expires := query.Get("signature_expiration")
	if expires != "" {
		at, err := strconv.ParseInt(expires, 10, 64)
		if err != nil || time.Now().Unix() > at {
			return Access{}, invalid
		}
	}
	wanted := []byte(query.Get("signature"))
	var found Access
	err := h.Sessions.Each(ctx, func(owner, serial string, s api.Session) bool {
		token := TokenPrefix + encode(owner) + "." + encode(s.ID) + "." + h.code(owner, s.ID, serial)
		if subtle.ConstantTimeCompare(wanted, []byte(sign(query.Get("path"), operation, query.Get("username"), token, expires))) == 1 {
			found = Access{Owner: owner, Session: s.ID, Token: token}
		}
		return found.Token == ""
	})
	if err != nil {
		return Access{}, err
	}
	if found.Token == "" {
		return Access{}, invalid
	}
	return found, nil
}

// sign is the signature that the SDK puts into the URL of a file. expires is in Unix seconds; "" is never.
func sign(path, operation, user, token, expires string) string {
	text := path + ":" + operation + ":" + user + ":" + token
	if expires != "" {
		text += ":" + expires
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}
