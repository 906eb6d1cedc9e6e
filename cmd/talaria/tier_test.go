package main

import (
	"slices"
	"testing"

	"talaria/kernel"
)

func TestTheCauseIsShownForEachTierThatFails(t *testing.T) {
	namespace := []kernel.Finding{{Name: "isolation of tier namespace", Detail: "no user namespaces"}, {Name: "kernel", OK: true}}
	landlock := []kernel.Finding{{Name: "isolation of tier landlock", Detail: "no Landlock", Remedy: "update Linux"}, {Name: "kernel", OK: true}}
	if found, want := withFailed(withFailed(nil, namespace), landlock), append(slices.Clone(namespace), landlock[0]); !slices.Equal(found, want) {
		t.Errorf("found %+v, want %+v", found, want)
	}
}
