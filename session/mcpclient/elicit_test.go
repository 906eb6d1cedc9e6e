package mcpclient_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session/remote"
)

func TestAQuestionOfAServerIsAskedAndAnswered(t *testing.T) {
	web, _ := at(t, &mcp.StreamableHTTPOptions{})
	web.Name = "questions"
	r := open(t, program(t, "serve"), web)
	yes := func(context.Context, string) error { return nil }
	no := func(context.Context, string) error { return errors.New("no") }
	object := func(properties, required string) string {
		return `{"type":"object","properties":{` + properties + `},"required":[` + required + `]}`
	}
	for _, c := range []struct {
		name, form string
		ask        func(context.Context, string) error
		want       string
		asked      bool
	}{
		{"yes", object("", ""), yes, "accept map[]", true},
		{"no", object("", ""), no, "decline map[]", true},
		{"a boolean", object(`"sure":{"type":"boolean"}`, `"sure"`), yes, "accept map[sure:true]", true},
		{"defaults", object(`"n":{"type":"integer","default":3},"note":{"type":"string"}`, `"n"`), yes, "accept map[n:3]", true},
		{"a name", object(`"name":{"type":"string"}`, `"name"`), yes, "decline map[]", false},
		{"two booleans", object(`"a":{"type":"boolean"},"b":{"type":"boolean"}`, `"a","b"`), yes, "decline map[]", false},
		{"nobody", object("", ""), nil, "decline map[]", false},
	} {
		for _, server := range []string{program(t, "serve").Name, web.Name} {
			t.Run(server+" "+c.name, func(t *testing.T) {
				arguments, err := api.Marshal(echo{c.form})
				if err != nil {
					t.Fatal(err)
				}
				call := remote.Call{ID: "x", Tool: server + "__ask", Arguments: arguments}
				asked := ""
				if c.ask != nil {
					call.Ask = func(ctx context.Context, question string) error { asked = question; return c.ask(ctx, question) }
				}
				result, err := r.Call(t.Context(), call)
				if err != nil || string(result.Value) != string(api.Text(c.want)) || strings.HasPrefix(asked, "may I?") != c.asked {
					t.Errorf("%s, asked %q: %v; want %s", result.Value, asked, err, c.want)
				}
			})
		}
	}
}
