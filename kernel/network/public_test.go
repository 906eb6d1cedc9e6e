package network

import (
	"errors"
	"testing"
)

func TestWhatOthersChoseMustBePublicOrListed(t *testing.T) {
	rules, err := ParseRules([]string{"files.corp.test:8080", "*.wild.test", "10.1.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	p := Public{rules}
	for address, public := range map[string]bool{
		"8.8.8.8:443": true, "[2606:4700::1]:443": true, "10.1.2.3:80": true,
		"127.0.0.1:80": false, "169.254.169.254:80": false, "10.2.0.1:80": false, "[::1]:80": false,
		"[::ffff:169.254.169.254]:80": false, "[fd00::1]:80": false, "0.0.0.0:80": false,
	} {
		if err := p.Control("tcp", address, nil); (err == nil) != public || err != nil && !errors.Is(err, ErrNotPublic) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for host, passes := range map[string]bool{
		"example.org": true, "files.corp.test": true, "a.wild.test": true, "8.8.8.8": true, "10.1.2.3": true,
		"169.254.169.254": false, "::1": false, "localhost": false, "2130706433": false, "127.1": false, "0x7f.0.0.1": false,
		"": false,
	} {
		if err := p.CheckHost(host, 8080); (err == nil) != passes {
			t.Errorf("%q: %v", host, err)
		}
	}
	if !p.Lists("Files.Corp.test.", 8080) || p.Lists("files.corp.test", 80) || p.Lists("wild.test", 80) || p.Lists("8.8.8.8", 80) {
		t.Error("a list is read wrongly")
	}
}
