package operation_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// pageOf returns the numbers of a page of n, counted from 0, after a cursor, and the cursor of the next page.
func pageOf(n, limit int, after string) (page []int, next string) {
	begin, _ := strconv.Atoi(after) // "": the first page
	for i := begin; i < min(n, begin+limit); i++ {
		page = append(page, i)
	}
	if begin+limit < n {
		next = strconv.Itoa(begin + limit)
	}
	return page, next
}

// ofBuilds serves n builds, and n matches in the logs of all or of build 7.
func ofBuilds(n int) operation.Calls {
	calls := operation.Calls{}
	operation.Serve(calls, operation.ListBuilds, func(_ context.Context, in *operation.BuildsInput) (list buildview.List, err error) {
		page, next := pageOf(n, in.Limit, in.After)
		for _, i := range page {
			list.Builds = append(list.Builds, buildview.Summary{ID: strconv.Itoa(i), Branch: in.Branch})
		}
		list.Next = next
		return list, nil
	})
	search := func(build string, in operation.LogSearch) (found buildview.Matches, err error) {
		page, next := pageOf(n, in.Limit, in.After)
		for _, i := range page {
			found.Matches = append(found.Matches, buildview.LogEntry{BuildID: build, ID: int64(i), Message: in.Text})
		}
		found.Next = next
		return found, nil
	}
	operation.Serve(calls, operation.SearchLogs, func(_ context.Context, in *operation.SearchLogsInput) (buildview.Matches, error) {
		return search("of "+in.Project, in.LogSearch)
	})
	operation.Serve(calls, operation.SearchBuildLog, func(_ context.Context, in *operation.SearchBuildInput) (buildview.Matches, error) {
		return search(in.ID, in.LogSearch)
	})
	return calls
}

func TestBuildsAndMatchesAreReadPageByPage(t *testing.T) {
	t.Parallel()
	const n = 2345
	calls := ofBuilds(n)
	for limit, want := range map[int]int{0: n, 1: 1, 500: 500, 501: 501, 2000: 2000, n: n, n + 1: n} {
		all, err := operation.AllBuilds(t.Context(), calls, operation.BuildsInput{Branch: "main", Limit: limit})
		if err != nil || len(all) != want {
			t.Fatalf("limit %d: %d builds, want %d, error %v", limit, len(all), want, err)
		}
		for i, b := range all {
			if b.ID != strconv.Itoa(i) || b.Branch != "main" {
				t.Fatalf("limit %d: build %d is %+v", limit, i, b)
			}
		}
		for _, of := range []string{"7", "of shop"} {
			given := 0
			each := func(e buildview.LogEntry) error {
				if e.BuildID != of || e.ID != int64(given) || e.Message != "panic" {
					return fmt.Errorf("match %d is %+v", given, e)
				}
				given++
				return nil
			}
			s := operation.LogSearch{Text: "panic", Limit: limit}
			if of == "7" {
				in := operation.SearchBuildInput{BuildPath: operation.BuildPath{ID: "7"}, LogSearch: s}
				err = operation.EachBuildMatch(t.Context(), calls, in, each)
			} else {
				err = operation.EachMatch(t.Context(), calls, operation.SearchLogsInput{Project: "shop", LogSearch: s}, each)
			}
			if err != nil || given != want {
				t.Errorf("limit %d, %s: %d matches, want %d, error %v", limit, of, given, want, err)
			}
		}
	}
}

// An answer may be empty before the end: the server looks at a bounded number of builds, or for a bounded time.
func TestAnEmptyPageIsNotTheLast(t *testing.T) {
	t.Parallel()
	calls := operation.Calls{}
	operation.Serve(calls, operation.ListBuilds, func(_ context.Context, in *operation.BuildsInput) (buildview.List, error) {
		if in.After == "" {
			return buildview.List{Next: "later"}, nil
		}
		return buildview.List{Builds: []buildview.Summary{{ID: "1"}}}, nil
	})
	operation.Serve(calls, operation.SearchLogs, func(_ context.Context, in *operation.SearchLogsInput) (buildview.Matches, error) {
		if in.After == "" {
			return buildview.Matches{Next: "later"}, nil
		}
		return buildview.Matches{Matches: []buildview.LogEntry{{ID: 1}}}, nil
	})
	for limit := range 2 { // 0: all
		if all, err := operation.AllBuilds(t.Context(), calls, operation.BuildsInput{Limit: limit}); err != nil || len(all) != 1 {
			t.Errorf("limit %d: %d builds, want 1, error %v", limit, len(all), err)
		}
		given := 0
		in := operation.SearchLogsInput{LogSearch: operation.LogSearch{Text: "panic", Limit: limit}}
		err := operation.EachMatch(t.Context(), calls, in, func(buildview.LogEntry) error { given++; return nil })
		if err != nil || given != 1 {
			t.Errorf("limit %d: %d matches, want 1, error %v", limit, given, err)
		}
	}
}

// A log is read to its end. Of all steps, notes of the build are left out; of one, all entries are given.
func TestEachLineIsReadPageByPage(t *testing.T) {
	t.Parallel()
	calls := operation.Calls{}
	operation.Serve(calls, operation.GetBuild, func(context.Context, *operation.BuildPath) (operation.BuildView, error) {
		return operation.BuildView{Plan: &build.Plan{Steps: []build.PlanStep{{ID: 1, Stage: "test", Name: "unit"}}}}, nil
	})
	operation.Serve(calls, operation.ReadBuildLog, func(_ context.Context, in *operation.BuildLogInput) ([]buildview.LogEntry, error) {
		if in.ID != "7" || in.Limit != buildview.MostEntries {
			return nil, fmt.Errorf("unexpected request %+v", in)
		}
		return map[string][]buildview.LogEntry{"": {{StepID: 0, ID: 1, Message: "a note"}, {StepID: 1, ID: 1, Message: "one"}},
			"1:1": {{StepID: 1, ID: 2, Message: "two"}}}[in.After], nil
	})
	for step, want := range map[string][]string{"": {"test/unit one", "test/unit two"},
		"/": {"/ a note", "test/unit one", "test/unit two"}} {
		var got []string
		in := operation.BuildLogInput{BuildPath: operation.BuildPath{ID: "7"}, Step: step}
		if err := operation.EachLine(t.Context(), calls, in, func(l buildview.Line) error {
			got = append(got, l.Step+" "+l.Text)
			return nil
		}); err != nil || !slices.Equal(got, want) {
			t.Errorf("step %q: got %q, want %q, error %v", step, got, want, err)
		}
	}
}
