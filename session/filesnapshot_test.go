package session

import (
	"context"
	"sync/atomic"
	"testing"

	"talaria/kernel/workspace"
)

// names returns the files of a snapshot.
func names(s workspace.Snapshot) (list []string) {
	for _, f := range s.Files {
		list = append(list, f.Path)
	}
	return list
}

func snapshotOf(name string) workspace.Snapshot {
	return workspace.Snapshot{Files: []workspace.FileState{{Path: name}}}
}

// scanned returns files with a scan that reports when it begins, and ends when it is given its result.
func scanned() (k *knownFiles, begun chan struct{}, found chan workspace.Snapshot) {
	begun, found = make(chan struct{}, 8), make(chan workspace.Snapshot)
	return &knownFiles{
		executing: func() bool { return false },
		scan: func(context.Context, workspace.Snapshot) (workspace.Snapshot, []workspace.Change, error) {
			begun <- struct{}{}
			return <-found, nil, nil
		},
	}, begun, found
}

// learn begins learn for a new change, and returns what it commits.
func learn(t *testing.T, k *knownFiles) <-chan *workspace.Snapshot {
	committed, change := make(chan *workspace.Snapshot, 1), k.change()
	go func() {
		err := k.learn(t.Context(), change, func(found *workspace.Snapshot, _ uint64) error {
			committed <- found
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	return committed
}

func TestACellEndsWhileTheFilesOfAClientAreScanned(t *testing.T) {
	k, begun, found := scanned()
	committed := learn(t, k)
	<-begun
	k.get() // as the end of a cell does: neither waits for the scan
	k.set(snapshotOf("of the cell"))
	found <- snapshotOf("outdated")
	<-begun // again, since the snapshot that it was compared with was replaced
	if s, _ := k.get(); names(s)[0] != "of the cell" {
		t.Errorf("an outdated scan replaced the snapshot: %v", names(s))
	}
	found <- snapshotOf("of both")
	if s := <-committed; s == nil || names(*s)[0] != "of both" {
		t.Errorf("committed %v", s)
	}
}

func TestFilesThatChangeWhileACellStartsAreLeftToTheCell(t *testing.T) {
	k, begun, found := scanned()
	var executing atomic.Bool
	k.executing = executing.Load
	committed := learn(t, k)
	<-begun
	executing.Store(true)
	found <- snapshotOf("maybe of the cell")
	if s := <-committed; s != nil {
		t.Errorf("committed %v", names(*s))
	}
	if s, version := k.get(); len(s.Files) > 0 || version != 0 {
		t.Errorf("the snapshot is %v", names(s))
	}
}

func TestOneScanCoversTheChangesBeforeIt(t *testing.T) {
	k, begun, found := scanned()
	first := learn(t, k)
	<-begun
	var later []<-chan *workspace.Snapshot
	for range 5 {
		later = append(later, learn(t, k))
	}
	found <- snapshotOf("of the first")
	<-first
	<-begun
	found <- snapshotOf("of all") // a sixth scan would wait here forever
	commits := 0
	for _, committed := range later {
		if <-committed != nil {
			commits++
		}
	}
	if commits != 1 {
		t.Errorf("%d scans for five changes, want 1", commits)
	}
}
