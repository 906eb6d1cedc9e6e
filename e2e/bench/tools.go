package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"talaria/api"
	"talaria/client"
)

// toolTime is how long the slow tool of the row tool-threads takes.
const toolTime = 20 * time.Millisecond

// defineTimed defines a function in the kernel that returns how many milliseconds a call takes.
const defineTimed = `
import time
from hermes_tools import *
def timed(call):
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1000
`

// defineThreads defines a function in the kernel that makes 100 calls from each of 10 threads. It fails when a call gets
// the answer to another one.
const defineThreads = `
from concurrent.futures import ThreadPoolExecutor
def hundred(thread):
    for i in range(100):
        n = thread * 1000 + i
        got = slow_echo(n=n)["n"]
        if got != n:
            raise ValueError(f"{n} got the answer {got}")
def threads():
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(hundred, range(10)))
`

// echo returns a tool that takes a while and answers with its arguments.
func echo(name string, takes time.Duration) client.ToolFunc {
	return client.ToolFunc{
		Tool: api.Tool{Name: name, Parameters: api.Raw(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)},
		Call: func(ctx context.Context, call api.ToolRequest) (any, error) {
			if takes > 0 {
				select {
				case <-time.After(takes):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return json.RawMessage(call.Arguments), nil
		},
	}
}

// toolCall measures an expression that calls tools, inside the kernel, in milliseconds.
func toolCall(expression string) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		return withTools(ctx, t, func(_ session, c conn) error {
			return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
				text, err := value(ctx, c, "timed(lambda: "+expression+")")
				if err != nil {
					return nil, err
				}
				took, err := strconv.ParseFloat(text, 64)
				return []float64{took}, err
			})
		})
	}
}

// toolInterrupt measures from the request to interrupt a cell that waits for eight calls to its KeyboardInterrupt.
func toolInterrupt(ctx context.Context, t *trial) error {
	return withTools(ctx, t, func(ses session, c conn) error {
		return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
			return interrupted(ctx, ses, c, "import asyncio\nfrom hermes_tools import aio\nawait asyncio.gather(*(aio.never(n=i) for i in range(8)))")
		})
	})
}

// withTools does something in a session whose tools the client provides that runs the cells, on the same WebSocket.
func withTools(ctx context.Context, t *trial, do func(session, conn) error) error {
	s, err := t.use(ctx, flavour{})
	if err != nil {
		return err
	}
	return within(ctx, s, attachment{}, func(ses session, c conn) error {
		own, ok := c.(*talariaConn)
		if !ok {
			return errors.New("only Talaria has tools")
		}
		calls := api.SessionPatch{Limits: &api.LimitsRequest{ToolCalls: new(int64(1000))}} // of one cell
		if _, err := own.session.client().UpdateSession(ctx, own.session.id, calls); err != nil {
			return fmt.Errorf("raise the limit of tool calls: %w", err)
		}
		served, err := own.socket.ServeTools(ctx, "", echo("echo", 0), echo("slow_echo", toolTime), echo("never", time.Hour))
		if err != nil {
			return fmt.Errorf("provide tools: %w", err)
		}
		defer served.Close()
		if err := ses.upload(ctx, "small.txt", []byte("one line\n")); err != nil {
			return err
		}
		if err := cell(ctx, c, defineTimed+defineThreads, ignore); err != nil {
			return err
		}
		return do(ses, c)
	})
}
