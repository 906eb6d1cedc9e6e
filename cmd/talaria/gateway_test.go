package main

import (
	"strings"
	"testing"
)

func TestSessionsOfBotsGetWhatIsConfigured(t *testing.T) {
	bot := chatBot{Limits: []string{"memory_bytes=512MiB", "cpus=0.5"}, Budgets: []string{"executions=10"}, NetworkAllow: []string{"pypi.org:443"}, Approvals: "all"}
	req, err := bot.session("telegram")
	if err != nil {
		t.Fatal(err)
	}
	if *req.Limits.MemoryBytes != 512<<20 || *req.Limits.CPUs != 0.5 || *req.Budgets.Executions != 10 || req.Network.Mode != "allow" || *req.Approvals != "all" {
		t.Errorf("%+v", req)
	}
	for want, bot := range map[string]chatBot{
		`unknown limit "memory"`: {Limits: []string{"memory=1"}},
		`unknown budget "cells"`: {Budgets: []string{"cells=1"}},
		`limit pids must be`:     {Limits: []string{"pids=many"}},
		`network must be none`:   {Network: "some"},
		`approvals must be off`:  {Approvals: "maybe"},
	} {
		c := defaults()
		c.Gateways.Telegram.chatBot = bot
		if err := c.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gives %v, want %s", bot, err, want)
		}
	}
}
