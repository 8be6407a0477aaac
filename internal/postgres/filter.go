package postgres

import (
	"strconv"
	"strings"
)

// filter collects the conditions of a query that are requested. Each combination is a statement of its own, so that
// each is planned by its own index.
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

// pipeline selects rows of a table by the name of their pipeline. The planner takes the id as one
// value, since it is a scalar subquery. So it walks an index that begins with the id in the order
// of the columns that follow, instead of sorting all rows of the pipeline.
func (f *filter) pipeline(table, name string) {
	f.and(table+".pipeline_id = (SELECT id FROM pipeline_head WHERE name = ?)", name)
}

// argument adds a value and returns its placeholder.
func (f *filter) argument(value any) string {
	f.arguments = append(f.arguments, value)
	return "$" + strconv.Itoa(len(f.arguments))
}

// where returns the clause; "" without conditions.
func (f *filter) where() string {
	if len(f.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.conditions, " AND ")
}

// limit returns the clause; "" for 0, which sets no limit.
func (f *filter) limit(n int) string {
	if n == 0 {
		return ""
	}
	return " LIMIT " + f.argument(n)
}
