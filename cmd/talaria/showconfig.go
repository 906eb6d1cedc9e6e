package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the server's effective configuration and where each value comes from",
		Long: `Show the server's effective configuration and where each value comes from: a flag, an environment variable, the file with its
line, or the default. It takes the flags of talaria serve. Secrets are not shown.`,
		Example: `  talaria config
  TALARIA_POOL=4 talaria config --idle-timeout 2h
  talaria config --json | jq '.[] | select(.source != "default")'`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			for _, warning := range c.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return printJSON(cmd.OutOrStdout(), c.settings())
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "KEY\tVALUE\tFROM")
			for _, s := range c.settings() {
				fmt.Fprintf(t, "%s\t%s\t%s\n", s.Key, s.text(), s.Source)
			}
			return t.Flush()
		},
	}
	addServeFlags(cmd.Flags())
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

// setting is one key of the configuration with its effective value.
type setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`
}

func (s setting) text() string {
	if text, ok := s.Value.(string); ok && text != "" && !strings.ContainsAny(text, " \t\n") {
		return text
	}
	b, err := json.Marshal(s.Value)
	if err != nil {
		return fmt.Sprint(s.Value)
	}
	return string(b)
}

// settings are all keys, in the order of the code.
func (c config) settings() []setting {
	return c.settingsOf(reflect.ValueOf(c), "", nil)
}

func (c config) settingsOf(section reflect.Value, prefix string, list []setting) []setting {
	for i := range section.NumField() {
		name := section.Type().Field(i).Tag.Get("config")
		if section.Type().Field(i).Anonymous {
			list = c.settingsOf(section.Field(i), prefix, list)
		}
		if name == "" {
			continue
		}
		key, v := join(prefix, name), section.Field(i)
		if v.Kind() == reflect.Struct {
			list = c.settingsOf(v, key, list)
			continue
		}
		list = append(list, setting{Key: key, Value: shown(key, v), Source: cmp.Or(c.sources[key], "default")})
	}
	return list
}

// shown is a value as it is written in the file; the token is not shown.
func shown(key string, v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return shortDuration(value)
	case string:
		if key == "token" && value != "" {
			return "(set)"
		}
		return value
	case []string:
		return append([]string{}, value...)
	case []environment:
		list := []map[string]any{}
		for _, e := range value {
			list = append(list, map[string]any{"name": e.Name, "python": e.Python, "engine": e.Engine, "preload": e.Preload})
		}
		return list
	case []mcpServer:
		list := []map[string]any{}
		for _, s := range value {
			shown := map[string]any{"name": s.Name}
			for key, set := range map[string]string{"command": s.Command, "env_file": s.EnvFile, "url": s.URL, "headers_file": s.HeadersFile} {
				if set != "" {
					shown[key] = set
				}
			}
			if len(s.Args) > 0 {
				shown["args"] = s.Args
			}
			list = append(list, shown)
		}
		return list
	case []int:
		return append([]int{}, value...)
	default:
		return value
	}
}

// shortDuration is 30m instead of 30m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
