package mirror

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARepositoryCannotRunPrograms(t *testing.T) {
	t.Parallel()
	trap := filepath.Join(t.TempDir(), "ran")
	files := fleet()
	files[".gitattributes"] = "* filter=x diff=x merge=x text=auto eol=crlf ident export-subst\n"
	files[".gitconfig"] = "[filter \"x\"]\n\tclean = touch " + trap + "\n\tsmudge = touch " + trap + "\n"
	files["hooks/post-checkout"] = "#!/bin/sh\ntouch " + trap + "\n"
	files[".gitmodules"] = "[submodule \"s\"]\n\tpath = s\n\turl = ext::touch " + trap + "\n\tupdate = !touch " + trap + "\n"
	files["HEAD"], files["config"], files["objects/x"], files["refs/x"] = "ref: refs/heads/main\n",
		"[core]\n\tbare = true\n\tfsmonitor = touch "+trap+"\n", "", ""
	h := newHost(t, files)
	h.Git(h.Work, "update-index", "--add", "--cacheinfo", "160000,"+h.Tip("main")+",s")
	h.Git(h.Work, "commit", "--quiet", "-m", "a submodule")
	h.Git(h.Work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	r := propose(t, open(t), h.request("6.6.0"))
	if !r.Pushed || len(r.Lines) != 2 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(trap); err == nil {
		t.Error("a program of the repository ran")
	}
	want := strings.Replace(h.Read("main", "clusters/prod/podinfo.yaml"), "6.5.4", "6.6.0", 1)
	if got := h.Read(head, "clusters/prod/podinfo.yaml"); got != want {
		t.Errorf("attributes change the file: got %q, want %q", got, want)
	}
	if diff := h.Git(h.Dir, "diff", "--stat=200", "main", head); strings.Count(diff, "|") != 2 {
		t.Errorf("more files change: %s", diff)
	}
}

func TestOddNamesAndModesAreKept(t *testing.T) {
	t.Parallel()
	names := []string{"a b.yaml", "ü\t\"q\"\\.yaml", "-x.yaml", ":(top)y.yaml", "new\nline.yaml", "*.yaml",
		"deep/" + strings.Repeat("d/", 100) + "z.yml",
		"\xff\xfe.yaml", "Kustomization"}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "v: 1.0.0" + m + "\n"
	}
	h := newHost(t, files)
	h.Git(h.Work, "update-index", "--chmod=+x", "a b.yaml")
	h.Git(h.Work, "commit", "--quiet", "-m", "a mode")
	h.Git(h.Work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	r := propose(t, open(t), h.request("6.6.0"))
	if len(r.Lines) != len(names) {
		t.Errorf("%d of %d files change", len(r.Lines), len(names))
	}
	for _, name := range names {
		if got := h.Read(head, name); got != "v: 6.6.0"+m+"\n" {
			t.Errorf("%q is %q", name, got)
		}
	}
	if mode := h.Git(h.Dir, "ls-tree", head, "a b.yaml"); !strings.HasPrefix(mode, "100755") {
		t.Errorf("the mode is %s", mode)
	}
}

func TestLinksAndOtherKindsOfFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	files := fleet()
	files["real/target.yaml"] = "v: 1.0.0" + n + "\n"
	h := newHost(t, files)
	if err := os.Symlink("podinfo.yaml", filepath.Join(h.Work, "clusters/prod/link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(h.Work, "clusters/prod/passwd.yaml")); err != nil {
		t.Fatal(err)
	}
	h.Commit("main")
	r := propose(t, open(t), h.request("6.6.0"))
	if len(r.Lines) != 2 || h.Git(h.Dir, "diff", "--name-only", "main", head) != "clusters/prod/Kustomization\nclusters/prod/podinfo.yaml" {
		t.Errorf("%+v", r)
	}
}

func TestLargeFilesAreRefusedIfMarked(t *testing.T) {
	t.Parallel()
	files := fleet()
	files["large.yaml"] = "v: 1" + n + "\n#" + strings.Repeat("x", 5<<20) + "\n"
	h := newHost(t, files)
	s := open(t)
	propose(t, s, h.request("6.6.0"))
	h.Write(map[string]string{"large.yaml": "v: 1" + m + "\n#" + strings.Repeat("x", 5<<20) + "\n"})
	h.Commit("main")
	request := h.request("6.7.0")
	_, err := s.Propose(t.Context(), request)
	if ClassOf(err) != Fatal || !strings.Contains(err.Error(), "large.yaml: the file has more than 4 MiB") {
		t.Errorf("%v", err)
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range 1000 {
		marker := n
		if i%10 == 0 {
			marker = m
		}
		files[fmt.Sprintf("apps/%03d/%s/%d.yaml", i%300, strings.Repeat("folder-", 20), i)] = "spec:\n  version: 1.0.0" + marker + "\n"
	}
	h := newHost(t, files)
	r := propose(t, open(t), h.request("6.6.0"))
	if len(r.Lines) != 100 || strings.Count(h.Git(h.Dir, "diff", "--numstat", "main", head), "1\t1\t") != 100 {
		t.Errorf("%d lines", len(r.Lines))
	}
}
