package server

import (
	"context"
	"net/http"
	"strings"

	"talaria/server/engine"
)

// engineFront is how clients of one-shot engines authenticate and are answered. They look whether the engine is up without
// a token.
var engineFront = &front{
	name: "engine", prefix: engine.Prefix,
	scheme: "Bearer",
	open: func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == engine.Prefix
	},
	refuse: engine.Refuse,
}

func (s *Server) engineRoutes() []route {
	if !s.engineOn {
		return nil
	}
	of := func(r route) route {
		r.front = engineFront
		return r
	}
	var routes []route
	for _, slash := range []string{"", "/"} {
		suffix := map[string]string{"": "", "/": "WithSlash"}[slash]
		routes = append(routes,
			of(get(engine.Prefix+slash, s.getEngine, doc{
				id: "getEngine" + suffix, summary: "Whether the one-shot engine runs", answers: answers{200: bytesOf("text/plain")}})),
			of(post(engine.Prefix+"/execute"+slash, s.postEngine, doc{
				id: "engineExecute" + suffix, summary: "Run a program, for clients of one-shot engines",
				body: jsonOf[engine.Execute](), answers: answers{200: jsonOf[engine.Executed]()}})),
			of(post(engine.Prefix+"/v2/execute"+slash, s.postEngineFiles, doc{
				id: "engineExecuteFiles" + suffix, summary: "Run a program of several files, for clients of one-shot engines",
				body: jsonOf[engine.ExecuteFiles](), answers: answers{200: jsonOf[engine.ExecutedFiles]()}})),
		)
	}
	return routes
}

func (s *Server) getEngine(c *call) error {
	c.String(http.StatusOK, engine.Up)
	return nil
}

func (s *Server) postEngine(c *call) error { return serveEngine(s, c, engine.Run) }

func (s *Server) postEngineFiles(c *call) error { return serveEngine(s, c, engine.RunFiles) }

func serveEngine[T any](s *Server, c *call, run func(context.Context, engine.Runs, string, []byte) (T, error)) error {
	data, release, err := readBody(c, false, "application/json")
	defer release()
	if err != nil {
		return err
	}
	return answerRun(s, c, func(ctx context.Context) (T, error) { return run(ctx, s.runs, c.owner, data) })
}
