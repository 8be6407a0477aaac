package api

import (
	"encoding/json"
	"math"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/obs"
)

// step is one step in the answer of /api/build/step.
type step struct {
	StepID     int          `json:"stepId"`
	ParentID   int          `json:"parentId"` // the stage's number, from 1
	Stage      string       `json:"stage"`
	Name       string       `json:"name"`
	Status     build.Status `json:"status"`
	Attempt    int          `json:"attempt"`
	Needs      []int        `json:"needs"` // ids of the steps that end before
	LogEntries int64        `json:"logEntries"`
	LogBytes   int64        `json:"logBytes"`
	Identity   string       `json:"identity"` // build.Plan.Identity
}

func (s *Server) listSteps(w http.ResponseWriter, _ *http.Request) {
	steps := []step{}
	for stage := range s.Plan.Stages {
		for _, id := range s.Plan.Stages[stage].Steps {
			planned := s.Plan.Step(id)
			last, err := s.reader.Last(id)
			if err != nil {
				s.fail(w, err)
				return
			}
			end, err := s.positions[id].AfterEntry(math.MaxInt64)
			if err != nil {
				s.fail(w, err)
				return
			}
			steps = append(steps, step{StepID: id, ParentID: stage + 1, Stage: planned.Stage, Name: planned.Name, Status: last.Status,
				Attempt: last.Attempt, Needs: append([]int{}, planned.After...), LogEntries: end.ID, LogBytes: end.Offset,
				Identity: s.Plan.Identity(id)})
		}
	}
	writeJSON(w, map[string]any{"steps": steps})
}

// listTests answers with the test reports of a step's files.
func (s *Server) listTests(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 || id >= len(s.positions) {
		http.Error(w, "step not found", http.StatusNotFound)
		return
	}
	files, err := s.reader.TestsOf(id)
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, map[string]any{"files": append([]build.TestFile{}, files...)})
}

// artifact is one artifact in the answer of /api/artifact.
type artifact struct {
	StepID int `json:"stepId"`
	build.Artifact
	Path string `json:"path,omitempty"` // hides the one on this machine
}

func (s *Server) listArtifacts(w http.ResponseWriter, _ *http.Request) {
	found, err := s.artifacts(0)
	if err != nil {
		s.fail(w, err)
		return
	}
	list := []artifact{}
	for _, a := range found {
		list = append(list, artifact{StepID: a.Step, Artifact: a})
	}
	writeJSON(w, map[string]any{"artifacts": list})
}

// downloadArtifact answers with the bytes, or with a range.
func (s *Server) downloadArtifact(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 {
		http.Error(w, "artifact ids are numbers from 1", http.StatusBadRequest)
		return
	}
	found, err := s.artifacts(id - 1)
	switch {
	case err != nil:
		s.fail(w, err)
		return
	case len(found) == 0:
		http.Error(w, "artifact not found", http.StatusNotFound)
		return
	}
	f, err := s.reader.OpenArtifact(found[0])
	if err != nil {
		s.fail(w, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(found[0].Path)}))
	w.Header().Set("ETag", `"`+found[0].SHA256+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]string{"status": "alive"})
}

// ready answers 503 once the results cannot be written. The plan is made before the API is served.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if s.brokenBy() != nil {
		http.Error(w, "the results cannot be written", http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, map[string]string{"status": "ready"})
}

// fail answers for results that cannot be read. The reason is in the worker's log.
func (s *Server) fail(w http.ResponseWriter, err error) {
	s.Log.Error("read results for a request", obs.Error(err))
	http.Error(w, "the results cannot be read", http.StatusInternalServerError)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}
