package postgres

import (
	"strconv"
	"strings"
)

// filter collects the conditions of a query that are asked for, so that each
// form of it is planned by its own index.
type filter struct {
	conditions []string
	arguments  []any
}

// and adds a condition whose ? is the argument.
func (f *filter) and(condition string, argument any) {
	f.conditions = append(f.conditions, strings.ReplaceAll(condition, "?", f.argument(argument)))
}

// when adds a condition if it is wanted.
func (f *filter) when(wanted bool, condition string, argument any) {
	if wanted {
		f.and(condition, argument)
	}
}

// pipeline selects rows of a table by the name of their pipeline. The id is one value to the planner, so that it walks an
// index that begins with it in the order of what follows there, instead of sorting all rows of the pipeline.
func (f *filter) pipeline(table, name string) {
	f.and(table+".pipeline_id = (SELECT id FROM pipeline_head WHERE name = ?)", name)
}

// argument adds a value and returns its placeholder.
func (f *filter) argument(value any) string {
	f.arguments = append(f.arguments, value)
	return "$" + strconv.Itoa(len(f.arguments))
}

// where is the clause; empty when nothing was asked for.
func (f *filter) where() string {
	if len(f.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conditions, " AND ")
}

// limit returns the clause; 0: without a limit.
func (f *filter) limit(n int) string {
	if n == 0 {
		return ""
	}
	return " LIMIT " + f.argument(n)
}
