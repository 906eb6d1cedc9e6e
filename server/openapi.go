package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"talaria/api"
)

// doc is what the API's description says of a route.
type doc struct {
	id      string // of the operation
	summary string
	query   string // names from queryParams, with spaces
	body    content
	answers answers
}

// content is a body: a schema for each media type.
type content struct {
	types    map[string]schemaOf
	optional bool
}

type schemaOf func(huma.Registry) *huma.Schema

// answers are bodies by status. Every route has the problem beside them.
type answers map[int]content

var (
	nothing  = content{}
	html     = bytesOf("text/html")
	notebook = content{types: map[string]schemaOf{notebookType: anyObject, "application/json": anyObject}}
)

func schema[T any](r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

func jsonOf[T any]() content {
	return content{types: map[string]schemaOf{string(formatJSON): schema[T]}}
}

// events is a stream of the session's events.
func events() content {
	return content{types: map[string]schemaOf{string(formatSSE): text, string(formatNDJSON): eventSchema}}
}

// batchEvents is a stream of a batch's events.
func batchEvents() content {
	return content{types: map[string]schemaOf{string(formatSSE): text, string(formatNDJSON): schema[api.BatchEvent]}}
}

// streamed is JSON or, by Accept, a stream of events.
func streamed[T any]() content {
	c := events()
	c.types[string(formatJSON)] = schema[T]
	return c
}

// mapped is the items of a map as they end and the summary, or by Accept all in one.
func mapped() content {
	return content{types: map[string]schemaOf{string(formatJSON): schema[api.MapResult], string(formatNDJSON): func(r huma.Registry) *huma.Schema {
		return &huma.Schema{OneOf: []*huma.Schema{schema[api.MapItem](r), schema[api.MapSummary](r)}}
	}}}
}

func bytesOf(media string) content {
	return content{types: map[string]schemaOf{media: func(huma.Registry) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Format: "binary"}
	}}}
}

func form[T any](T) content {
	return content{types: map[string]schemaOf{"application/x-www-form-urlencoded": schema[T]}}
}

func multipartFiles() content {
	return content{types: map[string]schemaOf{"multipart/form-data": func(huma.Registry) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{
			Type: huma.TypeString, Format: "binary",
		}}
	}}}
}

func optional(c content) content { c.optional = true; return c }

var problemContent = content{types: map[string]schemaOf{problemType: schema[api.Error]}}

type loginForm struct {
	Token string `json:"token"`
}

// queryParams are the query values, and Last-Event-ID, that routes name. Where two routes mean different things by one
// name, one of them has a key of its own.
var queryParams = map[string]huma.Param{
	"state": {Description: "only sessions in this state", Schema: &huma.Schema{
		Type: huma.TypeString, Enum: enum(api.SessionStates)}},
	"approvals.state": {Name: "state", Description: "pending: only open questions, oldest first",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"pending"}}},
	"search": {Description: "only sessions whose name or id contains this text, letters A to Z in either case",
		Schema: &huma.Schema{Type: huma.TypeString}},
	"metadata.KEY": {Description: "only sessions whose metadata has this value under KEY",
		Schema: &huma.Schema{Type: huma.TypeString}},
	"limit": {Description: "items on a page; default 50", Schema: &huma.Schema{
		Type: huma.TypeInteger, Minimum: ptr(1.0), Maximum: ptr(float64(api.MaxPage))}},
	"list.limit": {Name: "limit", Description: "items on a page; default: the whole list, or 50 with a cursor", Schema: &huma.Schema{
		Type: huma.TypeInteger, Minimum: ptr(1.0), Maximum: ptr(float64(api.MaxPage))}},
	"cursor": {Description: "next_cursor of the previous page", Schema: &huma.Schema{Type: huma.TypeString}},
	"if_exists": {Description: "for an existing session: keep returns it unchanged, apply changes it as PATCH would; default: fields of the body that differ are a conflict",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{api.IfExistsKeep, api.IfExistsApply}}},
	"wait_s": {Description: "wait at most this many seconds, then answer 202; default: until the end",
		Schema: &huma.Schema{Type: huma.TypeNumber, Minimum: ptr(0.0)}},
	"after": {Description: "the last seq that the client has", Schema: &huma.Schema{
		Type: huma.TypeInteger, Minimum: ptr(0.0)}},
	"to":     {Description: "the id of the later checkpoint; default: the current state", Schema: &huma.Schema{Type: huma.TypeString}},
	"follow": {Description: "false: stop at the end of the log; default true", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	"log_id": {Description: "the log that after belongs to; a different log is 409 log_changed",
		Schema: &huma.Schema{Type: huma.TypeString}},
	"view": {Description: "1: start with the log so far, without outputs that a later run of the same cell replaced",
		Schema: &huma.Schema{Type: huma.TypeBoolean}},
	"format": {Description: "execute_code: return what a language model gets as the result of the tool execute_code",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{executeCode}}},
	"target": {Description: "the kind of chat", Schema: &huma.Schema{Type: huma.TypeString, Enum: enum(api.RenderTargets)}},
	"dialect": {Description: "how the model's endpoint wants tools described; default openai",
		Schema: &huma.Schema{Type: huma.TypeString, Enum: enum(dialects)}},
	"session": {Description: "the session whose tools and limits to list; default: a new one", Schema: &huma.Schema{Type: huma.TypeString}},
	"parts":   {Description: "1: a message of more than 256 KiB comes in binary frames, after a parts frame with its size in bytes", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	"usage":   {Description: "1: a usage frame every second", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	"path":    {Description: "the folder; default: the workspace itself", Schema: &huma.Schema{Type: huma.TypeString}},
	"Last-Event-ID": {In: "header", Description: "takes precedence over after", Schema: &huma.Schema{
		Type: huma.TypeInteger, Minimum: ptr(0.0)}},
}

// enum are the values that a field may have.
func enum[T any](values []T) (list []any) {
	for _, v := range values {
		list = append(list, v)
	}
	return list
}

func ptr[T any](v T) *T { return &v }

func text(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeString} }

func anyObject(huma.Registry) *huma.Schema { return &huma.Schema{Type: huma.TypeObject} }

// describe makes the OpenAPI document of the routes.
func describe(routes []route, version string) ([]byte, error) {
	registry := newRegistry()
	spec := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Talaria", Version: version,
			Description: "Live Python sessions. A token goes into Authorization: Bearer, and on GET into ?token=.",
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer"},
				"query":  {Type: "apiKey", In: "query", Name: "token"},
				"cookie": {Type: "apiKey", In: "cookie", Name: loginCookie},
			},
		},
		Security: []map[string][]string{{"bearer": {}}, {"query": {}}, {"cookie": {}}},
	}
	for _, r := range routes {
		op, err := operation(r, registry)
		if err != nil {
			return nil, err
		}
		spec.AddOperation(op)
	}
	openAnswers(registry)
	return spec.MarshalJSON()
}

func operation(r route, registry huma.Registry) (*huma.Operation, error) {
	op := &huma.Operation{
		Method: r.method, Path: r.path, OperationID: r.doc.id, Summary: r.doc.summary,
		Responses: map[string]*huma.Response{"default": {
			Description: "A problem", Content: problemContent.mediaTypes(registry),
		}},
	}
	if r.open {
		op.Security = []map[string][]string{{}}
	}
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			})
		}
	}
	for _, name := range strings.Fields(r.doc.query) {
		param, ok := queryParams[name]
		if !ok {
			return nil, fmt.Errorf("route %s: query value %q is not described", r.doc.id, name)
		}
		if param.Name == "" {
			param.Name = name
		}
		if param.In == "" {
			param.In = "query"
		}
		op.Parameters = append(op.Parameters, &param)
	}
	if r.doc.body.types != nil {
		op.RequestBody = &huma.RequestBody{Required: !r.doc.body.optional, Content: r.doc.body.mediaTypes(registry)}
	}
	for status, c := range r.doc.answers {
		response := &huma.Response{Description: http.StatusText(status), Content: c.mediaTypes(registry)}
		if status == http.StatusCreated {
			response.Headers = map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}}}
		}
		op.Responses[strconv.Itoa(status)] = response
	}
	return op, nil
}

func (c content) mediaTypes(registry huma.Registry) map[string]*huma.MediaType {
	if c.types == nil {
		return nil
	}
	types := map[string]*huma.MediaType{}
	for name, schema := range c.types {
		types[name] = &huma.MediaType{Schema: schema(registry)}
	}
	return types
}

// newRegistry knows how the wire types that encode themselves look.
func newRegistry() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		if t == reflect.TypeFor[api.Error]() {
			return "Problem"
		}
		return huma.DefaultSchemaNamer(t, hint)
	})
	r.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[time.Time]())
	r.RegisterTypeAlias(reflect.TypeFor[api.Raw](), reflect.TypeFor[anyJSON]())
	r.RegisterTypeAlias(reflect.TypeFor[api.BatchFile](), reflect.TypeFor[fileJSON]())
	r.RegisterTypeAlias(reflect.TypeFor[api.Output](), reflect.TypeFor[outputJSON]())
	r.RegisterTypeAlias(reflect.TypeFor[api.Fork](), reflect.TypeFor[forkJSON]())
	return r
}

// anyJSON stands for a JSON value that is not looked into.
type anyJSON struct{}

// Schema implements [huma.SchemaProvider].
func (anyJSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// fileJSON stands for the content of a file.
type fileJSON struct{}

// Schema implements [huma.SchemaProvider].
func (fileJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "text, or bytes in base64", OneOf: []*huma.Schema{
		{Type: huma.TypeString},
		{Type: huma.TypeObject, Required: []string{"base64"}, Properties: map[string]*huma.Schema{
			"base64": {Type: huma.TypeString, ContentEncoding: "base64"},
		}},
	}}
}

// forkJSON stands for a fork, or the problem for which there is none.
type forkJSON struct{}

// Schema implements [huma.SchemaProvider].
func (forkJSON) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{schema[api.ForkedSession](r), schema[api.Error](r)}}
}

// outputJSON stands for an output as nbformat 4 has it.
type outputJSON struct{}

// Schema implements [huma.SchemaProvider].
func (outputJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: "an output in the format of nbformat 4",
		Required: []string{"output_type"}, Properties: map[string]*huma.Schema{"output_type": {
			Type: huma.TypeString, Enum: []any{"stream", "display_data", "execute_result", "error"},
		}}}
}

// eventSchema is the union of the events, one schema for each type.
func eventSchema(r huma.Registry) *huma.Schema {
	const name = "Event"
	if _, made := r.Map()[name]; !made {
		union := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "type"}}
		r.Map()[name] = union
		for _, body := range api.EventBodies() {
			union.OneOf = append(union.OneOf, eventOf(r, body))
		}
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// eventOf is the head of an event and the fields of its body.
func eventOf(r huma.Registry, body api.EventBody) *huma.Schema {
	fields := huma.SchemaFromType(r, reflect.TypeOf(body))
	s := &huma.Schema{
		Type: huma.TypeObject,
		Properties: map[string]*huma.Schema{
			"seq":          {Type: huma.TypeInteger, Format: "int64", Minimum: ptr(1.0)},
			"time":         {Type: huma.TypeString, Format: "date-time"},
			"type":         {Type: huma.TypeString, Enum: []any{body.EventType()}},
			"execution_id": {Type: huma.TypeString},
		},
		Required: []string{"seq", "time", "type"},
	}
	for name, field := range fields.Properties {
		s.Properties[name] = field
		if slices.Contains(fields.Required, name) && !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
	slices.Sort(s.Required)
	name := reflect.TypeOf(body).Name()
	if !strings.HasSuffix(name, "Event") {
		name += "Event"
	}
	r.Map()[name] = s
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// openAnswers lets all but requests have more fields than are described, since later versions may add some.
func openAnswers(r huma.Registry) {
	for name, s := range r.Map() {
		strict := strings.HasSuffix(name, "Request") || strings.HasSuffix(name, "Patch")
		if closed, ok := s.AdditionalProperties.(bool); ok && !closed && !strict {
			s.AdditionalProperties = nil
		}
	}
}
