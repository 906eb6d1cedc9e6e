package packages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"talaria/kernel/command"
	"talaria/kernel/workspace"
)

const (
	currentLayer = "current" // the link to the layer in force, in the packages folder
	stagedLayer  = "layer"   // the new one, in the stage
)

// putInForce makes the staged layer the session's, and returns what changed. Without a staged layer, nothing did.
func (p *Packages) putInForce(ctx context.Context) ([]command.Package, error) {
	dir, err := workspace.Open(filepath.Join(p.in.SessionsDir, p.in.ID))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	before, err := p.in.Dir.Target(currentLayer)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	number, _ := strconv.Atoi(before)
	layer := fmt.Sprintf("%04d", number+1)
	if err := p.in.Dir.Remove(ctx, layer); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a server that was killed
		return nil, err
	}
	entry, err := dir.Rename(workspace.StageFolder+"/"+stagedLayer, workspace.PackagesFolder+"/"+layer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case entry.Kind != workspace.Directory:
		return nil, failed("the installer left no folder")
	}
	changed := difference(p.installed(before), p.installed(layer))
	if err := p.in.Dir.Point(currentLayer, layer); err != nil {
		return nil, errors.Join(err, p.in.Dir.Remove(ctx, layer))
	}
	// The one before, and what a server left that was killed. Nobody else would remove them.
	if err := p.removeAllBut(context.WithoutCancel(ctx), currentLayer, layer); err != nil {
		p.in.Log.Warn("remove the packages that were replaced", "error", err)
	}
	return changed, nil
}

// removeAllBut removes everything in the folder of packages but what has these names.
func (p *Packages) removeAllBut(ctx context.Context, kept ...string) error {
	entries, err := p.in.Dir.List("")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(kept, e.Path) {
			continue
		}
		if err := p.in.Dir.Remove(ctx, e.Path); err != nil {
			return err
		}
	}
	return nil
}

// distribution matches the name of an installed package's metadata folder.
var distribution = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9.!+_]*)\.dist-info$`)

// installed returns the versions of the packages in a layer, by name.
func (p *Packages) installed(layer string) map[string]string {
	versions := map[string]string{}
	if layer == "" {
		return versions
	}
	major, rest, _ := strings.Cut(p.in.Environment.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	entries, err := p.in.Dir.List(layer + "/lib/python" + major + "." + minor + "/site-packages")
	if err != nil {
		p.in.Log.Debug("list a layer", "error", err)
	}
	for _, e := range entries {
		if m := distribution.FindStringSubmatch(e.Path[strings.LastIndexByte(e.Path, '/')+1:]); m != nil {
			versions[m[1]] = m[2]
		}
	}
	return versions
}

// difference returns the packages that are new, have another version, or were removed.
func difference(before, after map[string]string) []command.Package {
	var changed []command.Package
	for name, version := range after {
		if before[name] != version {
			changed = append(changed, command.Package{Name: name, Version: version})
		}
	}
	for name := range before {
		if _, kept := after[name]; !kept {
			changed = append(changed, command.Package{Name: name})
		}
	}
	return changed
}

// Clear removes all packages. No kernel of the session runs.
func (p *Packages) Clear(ctx context.Context) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.leave()
	if err := p.removeAllBut(ctx); err != nil {
		return fmt.Errorf("remove the session's packages: %w", err)
	}
	return nil
}

// Tidy removes what the installation of a server that was killed left behind.
func (p *Packages) Tidy() error {
	select {
	case p.turn <- struct{}{}:
		defer p.leave()
		return p.clearStage()
	default: // an installation runs, and has removed it
		return nil
	}
}

// clearStage removes what an installation left behind.
func (p *Packages) clearStage() error {
	dir, err := workspace.Open(filepath.Join(p.in.SessionsDir, p.in.ID))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(context.Background(), workspace.StageFolder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Capture returns the layer in force with its files kept by keep, or nil if there is none. An installation may replace the layer
// meanwhile, and removes it then: so it is captured again if it is no longer the one in force.
func (p *Packages) Capture(ctx context.Context, keep workspace.Keep) (*workspace.Manifest, error) {
	for {
		layer, err := p.in.Dir.Target(currentLayer)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		captured, err := p.captureLayer(ctx, layer, keep)
		if now, _ := p.in.Dir.Target(currentLayer); now == layer || ctx.Err() != nil {
			return captured, err
		}
	}
}

func (p *Packages) captureLayer(ctx context.Context, layer string, keep workspace.Keep) (*workspace.Manifest, error) {
	dir, err := workspace.Open(filepath.Join(p.in.SessionsDir, p.in.ID, workspace.PackagesFolder, layer))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	captured, err := dir.Capture(ctx, nil, keep)
	return &captured, err
}

// Fill gives a new session a layer of packages. open opens the blob of a digest.
func (p *Packages) Fill(ctx context.Context, layer workspace.Manifest, open func(string) (*os.File, error)) error {
	stage, err := workspace.CreateStage(p.in.SessionsDir, p.in.ID, p.in.UID)
	if err != nil {
		return err
	}
	defer func() {
		if err := errors.Join(stage.Close(), p.clearStage()); err != nil {
			p.in.Log.Warn("remove a stage", "error", err)
		}
	}()
	staged := workspace.Manifest{Entries: []workspace.ManifestEntry{{Path: stagedLayer, Kind: workspace.Directory, Mode: 0o755}}}
	for _, e := range layer.Entries {
		e.Path = stagedLayer + "/" + e.Path
		staged.Entries = append(staged.Entries, e)
	}
	restored, err := stage.Restore(ctx, staged, workspace.Manifest{}, open, workspace.RestoreOptions{})
	if err != nil {
		return err
	}
	if restored.NotRestoredCount > 0 {
		return fmt.Errorf("%d files, the first of them %s: %s", restored.NotRestoredCount, restored.NotRestored[0].Path, restored.NotRestored[0].Reason)
	}
	_, err = p.putInForce(ctx)
	return err
}
