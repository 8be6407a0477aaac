// Command stepoverhead runs in a pod, as a worker does, and measures an empty step on a small workspace beside a bare pod with as
// many containers, in turn. It prints a line for each round: milliseconds of the step, and of the bare pod until it has ended and until
// it is gone.
//
//	stepoverhead ROUNDS STEP-IMAGE SHIM-IMAGE
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/runner"
)

func main() {
	if err := measure(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stepoverhead:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, arguments []string) error {
	if len(arguments) != 3 {
		return fmt.Errorf("usage: stepoverhead ROUNDS STEP-IMAGE SHIM-IMAGE")
	}
	rounds, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	cluster, err := kube.Open(kube.Config{})
	if err != nil {
		return err
	}
	run, err := emptyStep(arguments[1])
	if err != nil {
		return err
	}
	for range rounds {
		began := time.Now()
		r := runner.New(cluster, runner.Config{ShimImage: arguments[2], PullPolicy: "IfNotPresent", Grace: time.Second})
		if exit, err := r.Run(ctx, run, silent{}); err != nil || exit.Code != 0 {
			return fmt.Errorf("run the step: exit status %d, %v", exit.Code, err)
		}
		step := time.Since(began)
		if err := r.Close(ctx); err != nil {
			return err
		}
		removed := time.Since(began)
		ended, gone, err := barePod(ctx, cluster, arguments[1], arguments[2])
		if err != nil {
			return fmt.Errorf("run a bare pod: %w", err)
		}
		fmt.Println("round", step.Milliseconds(), removed.Milliseconds(), ended.Milliseconds(), gone.Milliseconds())
	}
	return nil
}

// emptyStep returns a step without work, on a workspace of 50 small files.
func emptyStep(image string) (build.Run, error) {
	tree, err := os.MkdirTemp("", "tree")
	if err != nil {
		return build.Run{}, err
	}
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), make([]byte, 4<<10), 0o600); err != nil {
			return build.Run{}, err
		}
	}
	scratch, err := os.MkdirTemp("", "scratch")
	spec := build.Spec{Image: image, Argv: []string{"/bin/sh", "-c", "true"}}
	return build.Run{Build: "bench", Step: build.PlanStep{ID: 1, Stage: "s", Name: "a", Spec: spec}, Attempt: 1,
		Tree: tree, Scratch: scratch}, err
}

// barePod runs a pod of an init container and two containers, which end at once.
func barePod(ctx context.Context, cluster *kube.Cluster, image, shim string) (ended, gone time.Duration, err error) {
	const name = "bare"
	container := func(name, image string) any {
		return map[string]any{"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": []any{"/bin/sh", "-c", "true"},
			"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}}}
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
			"terminationGracePeriodSeconds": int64(1),
			"initContainers":                []any{container("init", shim)},
			"containers":                    []any{container("step", image), container("results", shim)}}}}
	changes, err := cluster.Pods().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return 0, 0, err
	}
	defer changes.Stop()
	began := time.Now()
	if _, err := cluster.Pods().Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	for change := range changes.ResultChan() {
		object, ok := change.Object.(*unstructured.Unstructured)
		if !ok {
			return 0, 0, fmt.Errorf("the watch was interrupted: %v", change.Object)
		}
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase") // absent: not begun
		switch {
		case change.Type == watch.Deleted:
			return ended, time.Since(began), nil
		case phase == "Failed":
			return 0, 0, fmt.Errorf("it failed: %v", object.Object["status"])
		case phase == "Succeeded" && ended == 0:
			ended = time.Since(began)
			if err := cluster.Pods().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return 0, 0, err
			}
		}
	}
	return 0, 0, fmt.Errorf("the watch has ended")
}

// silent takes what a step reports, and keeps nothing.
type silent struct{}

func (silent) Phase(build.Status) error                       { return nil }
func (silent) Output([]build.Entry) error                     { return nil }
func (silent) Note(string) error                              { return nil }
func (silent) Artifact(string, string, bool, io.Reader) error { return nil }
func (silent) Tests(string, []build.TestSource) error         { return nil }
