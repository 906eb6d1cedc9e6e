package server

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"talaria/api"
	"talaria/batch"
	"talaria/session"
)

// labelKey is where a request keeps its route. Routes are labels, paths never are: they hold ids.
const labelKey = "talaria.route"

func setLabel(c *gin.Context, route string) { c.Set(labelKey, route) }

func label(c *gin.Context) string {
	if route := c.GetString(labelKey); route != "" {
		return route
	}
	return "none"
}

type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	sockets   prometheus.Gauge
	handler   http.Handler
}

func newMetrics(registry *prometheus.Registry, sessions *session.Manager, batches *batch.Manager) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "talaria_http_requests_total", Help: "Requests answered.",
		}, []string{"method", "route", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "talaria_http_request_seconds", Help: "Time to the end of the answer, streams and sockets included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 300},
		}, []string{"method", "route"}),
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{Name: "talaria_sockets", Help: "Open WebSockets."}),
	}
	registry.MustRegister(m.requests, m.durations, m.sockets, &statsCollector{sessions, batches},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// observe counts and times every request, and logs it without its query, which may hold a token.
func (s *Server) observe(c *gin.Context) {
	began := time.Now()
	defer func() {
		took, route, method, status := time.Since(began), label(c), knownMethod(c.Request.Method), c.Writer.Status()
		s.metrics.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
		s.metrics.durations.WithLabelValues(method, route).Observe(took.Seconds())
		s.log.Debug("request", slog.String("method", method), slog.String("route", route),
			slog.Int("status", status), slog.Duration("took", took))
	}()
	c.Next()
}

// knownMethod keeps clients from creating labels.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "other"
}

// scrapeTime bounds the collection: kernels that have not reported their usage by then are left out of the sums.
const scrapeTime = 5 * time.Second

// statsCollector turns the figures of the sessions into metrics on request.
type statsCollector struct {
	sessions *session.Manager
	batches  *batch.Manager // nil: none
}

var (
	sessionsDesc   = prometheus.NewDesc("talaria_sessions", "Sessions by state.", []string{"state"}, nil)
	kernelsDesc    = prometheus.NewDesc("talaria_kernels", "Running interpreters.", nil, nil)
	poolDesc       = prometheus.NewDesc("talaria_pool_ready", "Interpreters ready for a session.", nil, nil)
	memoryDesc     = prometheus.NewDesc("talaria_kernel_memory_bytes", "Memory of all kernels.", nil, nil)
	cpuDesc        = prometheus.NewDesc("talaria_kernel_cpu_seconds", "CPU time of running kernels.", nil, nil)
	executionsDesc = prometheus.NewDesc("talaria_executions_total", "Executions finished since the server started.", nil, nil)
	eventsDesc     = prometheus.NewDesc("talaria_events_written_total", "Events written since the server started.", nil, nil)
	itemsDesc      = prometheus.NewDesc("talaria_batch_items", "Items of batches that run, and that wait.", []string{"state"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *statsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		sessionsDesc, kernelsDesc, poolDesc, memoryDesc, cpuDesc, executionsDesc, eventsDesc, itemsDesc,
	} {
		ch <- desc
	}
}

// Collect implements [prometheus.Collector].
func (s *statsCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	stats := s.sessions.Stats(ctx)
	one := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	for _, state := range api.SessionStates {
		one(sessionsDesc, prometheus.GaugeValue, float64(stats.Sessions[state]), string(state))
	}
	one(kernelsDesc, prometheus.GaugeValue, float64(stats.Kernels))
	one(poolDesc, prometheus.GaugeValue, float64(stats.Pool.Ready))
	one(memoryDesc, prometheus.GaugeValue, float64(stats.MemoryBytes))
	one(cpuDesc, prometheus.GaugeValue, stats.CPUSeconds)
	one(executionsDesc, prometheus.CounterValue, float64(s.sessions.EndedExecutions()))
	one(eventsDesc, prometheus.CounterValue, float64(stats.EventsWritten))
	if s.batches != nil {
		running, waiting := s.batches.Load()
		one(itemsDesc, prometheus.GaugeValue, float64(running), "running")
		one(itemsDesc, prometheus.GaugeValue, float64(waiting), "waiting")
	}
}
