package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"talaria/api"
)

// addSessionFlags adds what a new session can be asked to have.
func addSessionFlags(f *pflag.FlagSet) {
	f.String("name", "", "name of the new session")
	f.String("environment", "", "configured Python environment")
	f.String("memory", "", "memory limit, such as 512MiB")
	f.Float64("cpus", 0, "number of CPUs")
	f.String("disk", "", "size limit of the workspace, such as 1GiB")
	f.StringArray("limit", nil, "an API limit by name, such as pids=64 (repeatable)")
	f.String("network", "", "none, allow or full")
	f.StringArray("allow", nil, "host, host:port, *.host:port or CIDR that the session may reach; sets --network allow (repeatable)")
	f.StringArray("package", nil, "package to install, such as requests or 'pandas<3' (repeatable)")
	f.StringArray("env", nil, "environment variable NAME=VALUE (repeatable)")
	f.StringArray("secret", nil, "environment variable NAME=VALUE that is never shown (repeatable)")
	f.StringArray("mount", nil, "folder SOURCE:TARGET[:ro|rw] of the server's machine; ro unless rw is given (repeatable)")
	f.Duration("idle-timeout", 0, "stop the kernel after this long without use; 0: never")
	f.String("isolation", "", "default or strict")
}

// sessionRequest is what the flags of addSessionFlags ask for; flags that were not given ask for nothing.
func sessionRequest(cmd *cobra.Command) (req api.SessionRequest, err error) {
	f := cmd.Flags()
	text := func(name string, into **string) {
		if f.Changed(name) {
			value, _ := f.GetString(name)
			*into = &value
		}
	}
	list := func(name string) []string { all, _ := f.GetStringArray(name); return all }
	text("name", &req.Name)
	text("environment", &req.Environment)
	if f.Changed("isolation") {
		mode := api.IsolationMode(flagOf(cmd, "isolation"))
		req.Isolation = &mode
	}
	if f.Changed("idle-timeout") {
		d, _ := f.GetDuration("idle-timeout")
		seconds := d.Seconds()
		req.IdleTimeoutS = &seconds
	}
	if packages := list("package"); len(packages) > 0 {
		req.Packages = &packages
	}
	if mode, allow := flagOf(cmd, "network"), list("allow"); mode != "" || len(allow) > 0 {
		req.Network = &api.Network{Mode: api.NetworkMode(first(mode, string(api.NetworkAllow))), Allow: allow}
	}
	if req.Env, err = variables("env", list("env")); err != nil {
		return req, err
	}
	if req.Secrets, err = variables("secret", list("secret")); err != nil {
		return req, err
	}
	if req.Mounts, err = mountList(list("mount")); err != nil {
		return req, err
	}
	req.Limits, err = limitFlags(cmd)
	return req, err
}

func variables(flag string, given []string) (*map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, one := range given {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return nil, usagef("--%s needs NAME=VALUE", flag)
		}
		all[name] = value
	}
	return &all, nil
}

func mountList(given []string) (*[]api.Mount, error) {
	if len(given) == 0 {
		return nil, nil
	}
	var all []api.Mount
	for _, one := range given {
		parts := append(strings.Split(one, ":"), "ro")
		if len(parts) < 3 || len(parts) > 4 {
			return nil, usagef("--mount needs SOURCE:TARGET or SOURCE:TARGET:rw, not %q", one)
		}
		all = append(all, api.Mount{Source: parts[0], Target: parts[1], Mode: parts[2]})
	}
	return &all, nil
}

// limitFlags are the limits that were asked for, nil for none.
func limitFlags(cmd *cobra.Command) (*api.LimitsRequest, error) {
	given, _ := cmd.Flags().GetStringArray("limit")
	for flag, name := range map[string]string{"memory": "memory_bytes", "disk": "disk_bytes", "cpus": "cpus"} {
		if cmd.Flags().Changed(flag) {
			given = append(given, name+"="+flagOf(cmd, flag))
		}
	}
	return parseLimits(given)
}

// parseLimits reads limits as NAME=VALUE; nil for none.
func parseLimits(given []string) (*api.LimitsRequest, error) {
	return parseNamed[api.LimitsRequest]("limit", given)
}

// parseNamed reads NAME=VALUE into the fields of a request, by their names on the wire; nil for none.
func parseNamed[T any](what string, given []string) (*T, error) {
	if len(given) == 0 {
		return nil, nil
	}
	req := new(T)
	fields := map[string]reflect.Value{}
	for i := range reflect.TypeFor[T]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[T]().Field(i).Tag.Get("json"), ",")
		fields[name] = reflect.ValueOf(req).Elem().Field(i)
	}
	for _, one := range given {
		name, value, _ := strings.Cut(one, "=")
		field, ok := fields[name]
		if !ok {
			return nil, usagef("unknown %s %q%s", what, name, suggestion(name, fields, "; docs/limits.md lists the "+what+"s"))
		}
		field.Set(reflect.New(field.Type().Elem()))
		if err := setLimit(field.Elem(), value); err != nil {
			return nil, usagef("%s %s %v", what, name, err)
		}
	}
	return req, nil
}

func setLimit(v reflect.Value, text string) error {
	if !v.CanInt() {
		return setText(v, text)
	}
	n, err := parseSize(text)
	v.SetInt(n)
	return err
}

// parseSize reads 1048576, 1024KiB, 1MiB, 1M or 1MB; all units are powers of 1024, as the limits are.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "KMGTiBkb")
	shift, ok := map[string]int{"": 0, "B": 0, "K": 10, "M": 20, "G": 30, "T": 40}[strings.ToUpper(strings.TrimSuffix(strings.TrimRight(text[len(number):], "Bb"), "i"))]
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || x < 0 {
		return 0, fmt.Errorf("must be a number, for bytes with or without a unit such as 512MiB, not %q", text)
	}
	return int64(x * float64(int64(1)<<shift)), nil
}
