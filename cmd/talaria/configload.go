package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// load reads the configuration of a command: the file, then TALARIA_ variables, then flags.
func load(cmd *cobra.Command) (config, error) {
	r := newConfigReader()
	if err := r.readFileOf(cmd); err != nil {
		return r.config, err
	}
	if err := r.readEnvironment(os.Environ()); err != nil {
		return r.config, err
	}
	if err := r.readFlags(cmd.Flags()); err != nil {
		return r.config, err
	}
	c := r.config
	c.sources, c.warnings = r.sources, r.warnings
	c.lowerDefaults()
	dir, err := filepath.Abs(first(c.StateDir, defaultStateDir()))
	if err != nil {
		return c, fmt.Errorf("state directory: %w", err)
	}
	c.StateDir = dir
	return c, c.check()
}

// lowerDefaults lowers limits that nobody has set to ceilings that somebody has.
func (c *config) lowerDefaults() {
	all, most := reflect.ValueOf(&c.Limits).Elem(), fieldsOf(reflect.ValueOf(c.Ceilings))
	for name, limit := range fieldsOf(all) {
		key, ceiling := "ceilings."+name, most[name]
		if c.sources["limits."+name] != "" || ceiling.IsZero() || name == "artifact_bytes" { // which follows by itself
			continue
		}
		above := limit.CanInt() && limit.Int() > ceiling.Int() || limit.CanFloat() && limit.Float() > ceiling.Float()
		if unlimited := strings.HasPrefix(name, "execution_") && limit.IsZero(); above || unlimited {
			limit.Set(ceiling)
			c.sources["limits."+name] = key
		}
	}
}

// stateDir is the state directory of a command that needs nothing else of the configuration. It is the one that load finds.
func stateDir(cmd *cobra.Command) (string, error) {
	if dir := namedStateDir(cmd); dir != "" {
		return dir, nil
	}
	r := newConfigReader()
	err := r.readFileOf(cmd)
	return first(r.config.StateDir, defaultStateDir()), err
}

// namedStateDir is the state directory that the flag or the variable names, which the file cannot change; "" for none.
func namedStateDir(cmd *cobra.Command) string {
	return first(flagOf(cmd, "state-dir"), os.Getenv("TALARIA_STATE_DIR"))
}

// configFile is the absolute path of the file that was named, for programs that are started elsewhere; "" for none.
func configFile(cmd *cobra.Command) string {
	path := first(flagOf(cmd, "config"), os.Getenv("TALARIA_CONFIG"))
	if path == "" {
		return ""
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// listKeys says where to find the key that was meant.
func listKeys() string { return "; " + program + " config lists the keys" }

// configReader puts a configuration together and remembers where each value comes from.
type configReader struct {
	config   config
	path     string            // of the file that is being read
	sources  map[string]string // by key
	warnings []string
}

func newConfigReader() *configReader {
	return &configReader{config: defaults(), sources: map[string]string{}}
}

// readFileOf reads the file that was named for a command, or else the one in the state directory, if there is one.
func (r *configReader) readFileOf(cmd *cobra.Command) error {
	if path := configFile(cmd); path != "" {
		return r.readFile(path)
	}
	path := filepath.Join(first(namedStateDir(cmd), defaultStateDir()), "talaria.yaml")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return r.readFile(path)
}

func (r *configReader) readFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		var why *fs.PathError
		if errors.As(err, &why) {
			err = why.Err
		}
		return fmt.Errorf("read the configuration %s: %w", path, err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return nil // it is empty
	}
	r.path = path
	return r.decode(reflect.ValueOf(&r.config).Elem(), document.Content[0], "")
}

// decode sets a value from the file. A null leaves it as it is.
func (r *configReader) decode(v reflect.Value, node *yaml.Node, key string) error {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return nil
	}
	if key != "" {
		r.sources[key] = r.line(node)
	}
	switch {
	case v.Kind() == reflect.Struct:
		return r.decodeSection(v, node, key)
	case v.Kind() == reflect.Slice && node.Kind == yaml.SequenceNode:
		list := reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content))
		for i, one := range node.Content {
			if err := r.decode(list.Index(i), one, fmt.Sprintf("%s[%d]", key, i)); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	case node.Kind != yaml.ScalarNode:
		return r.wrong(node, "%s must be %s", key, kindName(v.Type()))
	}
	if err := setText(v, node.Value); err != nil {
		return r.wrong(node, "%s %w", key, err)
	}
	return nil
}

func (r *configReader) decodeSection(v reflect.Value, node *yaml.Node, key string) error {
	if node.Kind != yaml.MappingNode {
		return r.wrong(node, "%s must be a mapping of keys to values", first(key, "the configuration"))
	}
	fields, seen := fieldsOf(v), map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		spelled := strings.ReplaceAll(name.Value, "-", "_") // as keys were spelled until v0.2
		field, ok := fields[spelled]
		switch {
		case !ok:
			return r.wrong(name, "unknown key %q%s", join(key, name.Value), suggestion(spelled, fields, listKeys()))
		case seen[spelled]:
			return r.wrong(name, "%q is given twice", join(key, spelled))
		case spelled != name.Value:
			r.warnings = append(r.warnings, fmt.Sprintf("%s: %q is the old spelling of %q", r.line(name), name.Value, spelled))
		}
		seen[spelled] = true
		if err := r.decode(field, node.Content[i+1], join(key, spelled)); err != nil {
			return err
		}
	}
	return nil
}

func (r *configReader) line(node *yaml.Node) string { return r.path + ":" + strconv.Itoa(node.Line) }

func (r *configReader) wrong(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{r.line(node)}, args...)...)
}

// otherVariables are TALARIA_ variables that configure something other than the server.
var otherVariables = []string{"TALARIA_CONFIG", "TALARIA_URL", "TALARIA_PROFILE", "TALARIA_TRACE", "TALARIA_WORKSPACE"}

// readEnvironment takes TALARIA_IDLE_TIMEOUT as idle_timeout, and TALARIA_LIMITS__MEMORY_BYTES as limits.memory_bytes. An
// unknown one only warns: variables may be there for other programs.
func (r *configReader) readEnvironment(environ []string) error {
	for _, one := range environ {
		variable, value, _ := strings.Cut(one, "=")
		name, ours := strings.CutPrefix(variable, "TALARIA_")
		if !ours || slices.Contains(otherVariables, variable) {
			continue
		}
		key := strings.ReplaceAll(strings.ToLower(name), "__", ".")
		if unnamed(key, value) {
			continue
		}
		field, err := r.find(key)
		if err != nil {
			r.warnings = append(r.warnings, fmt.Sprintf("the environment variable %s is ignored: %v", variable, err))
			continue
		}
		if err := setText(field, value); err != nil {
			return fmt.Errorf("environment variable %s %w", variable, err)
		}
		r.sources[key] = variable
	}
	return nil
}

// readFlags takes the flags that were given and are keys of the configuration.
func (r *configReader) readFlags(flags *pflag.FlagSet) (failed error) {
	flags.Visit(func(f *pflag.Flag) {
		key := strings.ReplaceAll(f.Name, "-", "_")
		field, err := r.find(key)
		if err != nil || key == "token" { // --token is a client's: the server's is preset by TALARIA_TOKEN or the file
			return // a flag of the command alone
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if unnamed(key, value) {
			return
		}
		if err := setText(field, value); err != nil && failed == nil {
			failed = fmt.Errorf("flag --%s %w", f.Name, err)
		}
		r.sources[key] = "--" + f.Name
	})
	return failed
}

// unnamed reports whether a variable or a flag names no state directory: an empty one would be the working directory.
func unnamed(key, value string) bool { return key == "state_dir" && value == "" }

// find is the value of a key such as limits.cpus, which one piece of text can set.
func (r *configReader) find(key string) (reflect.Value, error) {
	v := reflect.ValueOf(&r.config).Elem()
	for name := range strings.SplitSeq(key, ".") {
		if v.Kind() != reflect.Struct {
			return v, fmt.Errorf("unknown key %q", key)
		}
		fields := fieldsOf(v)
		field, ok := fields[name]
		if !ok {
			return v, fmt.Errorf("unknown key %q%s", key, suggestion(name, fields, listKeys()))
		}
		v = field
	}
	if !scalar(v.Type()) {
		return v, fmt.Errorf("%q can only be set in the file", key)
	}
	return v, nil
}

func scalar(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && !(t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct)
}

// fieldsOf are the fields of a section by their keys.
func fieldsOf(section reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range section.NumField() {
		field := section.Type().Field(i)
		if field.Anonymous { // what sections have in common
			maps.Copy(fields, fieldsOf(section.Field(i)))
		}
		if name := field.Tag.Get("config"); name != "" {
			fields[name] = section.Field(i)
		}
	}
	return fields
}

var durationType = reflect.TypeFor[time.Duration]()

// setText sets a value from text, as variables, flags and scalars of the file have it.
func setText(v reflect.Value, text string) error {
	var err error
	switch {
	case v.Type() == durationType:
		var d time.Duration
		d, err = time.ParseDuration(text)
		v.SetInt(int64(d))
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 0, v.Type().Bits())
		v.SetInt(n)
	case v.CanFloat():
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		v.SetFloat(x)
	case v.Kind() == reflect.Bool:
		var on bool
		on, err = strconv.ParseBool(text)
		v.SetBool(on)
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Slice:
		parts := splitList(text)
		list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
		for i, part := range parts {
			if err := setText(list.Index(i), part); err != nil {
				return err
			}
		}
		v.Set(list)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("must be %s, not %q", kindName(v.Type()), text)
	}
	return nil
}

func splitList(text string) []string {
	list := []string{}
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// kindName says what a value has to look like.
func kindName(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration with a unit, such as 90s, 30m or 12h"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "text"
}

func join(section, key string) string {
	if section == "" {
		return key
	}
	return section + "." + key
}
