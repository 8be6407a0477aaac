package pipeline

// Parts of the definitions of worlds, as in transcripts. Stages have one step in their chain where a
// second one would only add states.
const (
	labOf    = "stage lab chain=host-deployed; group all "
	lab      = labOf + "ash"
	prodOf   = "; stage prod after lab chain=host-deployed; group all "
	prod     = prodOf + "birch"
	built    = "stage build build=amd64; stage lab after build chain=host-deployed; group all ash:amd64"
	builtTwo = "stage build build=amd64,arm64; stage lab after build chain=host-deployed; group all ash:amd64 birch:arm64"
	builtNew = "stage build build=arm64; stage lab after build chain=host-deployed; group all birch:arm64"
	diamond  = lab + "; stage east after lab chain=host-deployed; group all birch; stage west after lab chain=host-deployed; group all cedar"
	tested   = "chain=host-deployed,host-deployment-tested; group all "
	warmed   = "chain=host-deployed,host-warmed,host-deployment-tested; group all "
)

// modelWorlds are the worlds of the model checker: first without edits, then with one kind of edit
// each. They have at most three hosts and three deployments.
var modelWorlds = []modelWorld{
	{name: "one host", ships: []int64{1, 2}, race: true, versions: []string{"stage lab; group all ash"},
		budget: budget{fails: 1, ends: 1, retries: 1, cancels: 1}},
	{name: "one host, three deployments", ships: []int64{1, 2, 3}, versions: []string{lab},
		budget: budget{fails: 2, ends: 1, retries: 1, cancels: 1}},
	{name: "three hosts, one at a time, skips", ships: []int64{1, 2}, versions: []string{labOf + "parallel=1 failed=1 ash birch cedar"},
		budget: budget{fails: 2, retries: 1, skips: 1}},
	{name: "three hosts, two at a time", ships: []int64{1, 2}, versions: []string{labOf + "parallel=2 failed=1 ash birch cedar"},
		budget: budget{fails: 2, ends: 1, retries: 1}},
	{name: "line", ships: []int64{1, 2, 3}, versions: []string{lab + prod},
		budget: budget{fails: 1, ends: 1, retries: 1, cancels: 1}},
	{name: "line over one host", ships: []int64{1, 2}, race: true, versions: []string{lab + prodOf + "ash"},
		budget: budget{fails: 2, ends: 1, retries: 2, cancels: 1}},
	{name: "line, decision by decision", ships: []int64{1, 2}, race: true, limit: 1, versions: []string{lab + prod},
		budget: budget{fails: 1, ends: 1, retries: 1}},
	{name: "line, hold on failure", ships: []int64{1, 2, 3},
		versions: []string{"stage lab hold chain=host-deployed; group all ash; stage prod after lab hold chain=host-deployed; group all birch"},
		budget:   budget{fails: 2, retries: 1, cancels: 1}},
	{name: "line, latest", ships: []int64{1, 2, 3},
		versions: []string{
			"stage lab queue=latest chain=host-deployed; group all ash; stage prod after lab queue=latest chain=host-deployed; group all birch"},
		budget: budget{fails: 1, retries: 1, holds: 1}},
	{name: "line, strict order, holds", ships: []int64{1, 2}, versions: []string{"order strict; " + lab + prod},
		budget: budget{fails: 1, retries: 1, cancels: 1, holds: 1}},
	{name: "line without queues", ships: []int64{1, 2, 3},
		versions: []string{
			"stage lab queue=false chain=host-deployed; group all parallel=1 ash birch; stage prod after lab queue=false " +
				"chain=host-deployed; group all cedar"},
		budget: budget{fails: 1, retries: 1, holds: 1}},
	{name: "two hosts without a queue", ships: []int64{1, 2, 3},
		versions: []string{"stage lab queue=false chain=host-deployed; group all parallel=2 ash birch"},
		budget:   budget{fails: 1, ends: 1, retries: 1}},
	{name: "line in a batch", ships: []int64{1, 2, 3}, versions: []string{lab + prod + "; batch live lab prod"},
		budget: budget{fails: 1, ends: 1, retries: 1, cancels: 1}},
	{name: "line in a batch, hold on failure", long: true, ships: []int64{1, 2},
		versions: []string{"stage lab hold chain=host-deployed; group all ash" + prod + "; batch live lab prod"},
		budget:   budget{fails: 2, ends: 1, retries: 1, cancels: 1, skips: 1}},
	{name: "diamond", ships: []int64{1, 2},
		versions: []string{diamond + "; stage end after east,west"},
		budget:   budget{fails: 2, ends: 1, retries: 1}},
	{name: "diamond in a batch", ships: []int64{1, 2, 3},
		versions: []string{"stage lab; stage east after lab chain=host-deployed; group all birch; stage west after lab hold " +
			"chain=host-deployed; group all cedar; " +
			"stage end after east,west; batch live lab end"},
		budget: budget{fails: 1, ends: 1, retries: 1}},
	{name: "diamond, strict order", ships: []int64{1, 2}, versions: []string{"order strict; " + diamond},
		budget: budget{fails: 1, ends: 1, retries: 1}},
	{name: "external build, strict order", ships: []int64{1, 2},
		versions: []string{"order strict; stage build external=amd64; stage lab after build chain=host-deployed; group all ash:amd64"},
		budget:   budget{fails: 1, retries: 1, holds: 1, cancels: 1}},
	{name: "build", ships: []int64{1, 2, 1}, versions: []string{built},
		budget: budget{fails: 1, ends: 1, retries: 1}},

	{name: "a host joins or leaves", long: true, ships: []int64{1, 2},
		versions: []string{lab + prod, labOf + "ash cedar" + prod, labOf + prod},
		budget:   budget{edits: 2, fails: 1, retries: 1}},
	{name: "a host joins where a newer one was", long: true, ships: []int64{1, 2}, versions: []string{lab + prod, lab + prodOf + "birch ash"},
		budget: budget{edits: 2, ends: 1, holds: 1}},
	{name: "the host of a failure leaves", ships: []int64{1, 2}, race: true, versions: []string{labOf + "ash birch", labOf + "birch"},
		budget: budget{edits: 2, fails: 2, ends: 1}},
	{name: "a stage is inserted or leaves", ships: []int64{1, 2}, versions: []string{
		lab + prod,
		lab + "; stage mid after lab chain=host-deployed; group all cedar; stage prod after mid chain=host-deployed; group all birch",
		"stage prod chain=host-deployed; group all birch"},
		budget: budget{edits: 1, fails: 1, ends: 1, retries: 1}},
	{name: "two stages are inserted", ships: []int64{1, 2}, versions: []string{
		lab + prod,
		"stage pre chain=host-deployed; group all cedar; stage lab after pre chain=host-deployed; group all ash" + prod +
			"; stage post after prod chain=host-warmed; group all cedar"},
		budget: budget{edits: 1, fails: 1, retries: 1}},
	{name: "a step is introduced", ships: []int64{1, 2}, versions: []string{
		"stage lab " + tested + "parallel=2 ash birch; stage prod after lab " + tested + "cedar",
		"stage lab " + warmed + "parallel=2 ash birch; stage prod after lab " + warmed + "cedar"},
		budget: budget{edits: 1, ends: 1}},
	{name: "steps are introduced one after another", long: true, ships: []int64{1, 2}, versions: []string{
		lab + prod,
		"stage lab chain=host-warmed,host-deployed; group all ash" + prod,
		"stage lab chain=host-warmed,host-deployed,host-checked; group all ash; stage prod after lab " +
			"chain=host-warmed,host-deployed; group all birch"},
		budget: budget{edits: 2, fails: 1}},
	{name: "a chain is reordered or shortened", ships: []int64{1, 2}, versions: []string{
		"stage lab; group all ash", "stage lab chain=host-artifact-replicated,host-deployment-tested,host-deployed; group all ash", lab},
		budget: budget{edits: 2, fails: 1, retries: 1}},
	{name: "an architecture is added or leaves", long: true, ships: []int64{1, 2, 1}, versions: []string{built, builtTwo, builtNew},
		budget: budget{edits: 1, fails: 1}},
	{name: "after is reordered", ships: []int64{1, 2}, versions: []string{
		diamond,
		lab + "; stage east after lab chain=host-deployed; group all birch; stage west after east chain=host-deployed; group all cedar",
		"stage west chain=host-deployed; group all cedar; stage lab after west chain=host-deployed; group all ash; stage east " +
			"after lab chain=host-deployed; group all birch"},
		budget: budget{edits: 1, fails: 1, ends: 1}},
	{name: "after is reordered behind a hold", ships: []int64{1, 2}, versions: []string{
		diamond, lab + "; stage west after lab chain=host-deployed; group all cedar; stage east after west chain=host-deployed; group all birch"},
		budget: budget{edits: 2, holds: 1}},
	{name: "the stage of an overtaken failure leaves", ships: []int64{1, 2}, versions: []string{
		lab + "; stage prod after lab hold chain=host-deployed; group all ash", lab},
		budget: budget{edits: 2, fails: 1, skips: 1}},
	{name: "a failed deployment comes to be inside a batch", ships: []int64{1, 2}, versions: []string{
		"stage east queue=false chain=host-deployed; group all birch; stage west chain=host-deployed; group all cedar",
		"stage east queue=false chain=host-deployed; group all birch; stage west after east chain=host-deployed; group all cedar",
		"stage east chain=host-deployed; group all birch; stage west chain=host-deployed; group all cedar"},
		budget: budget{edits: 2, fails: 1}},
	{name: "limits are changed", long: true, ships: []int64{1, 2}, versions: []string{
		labOf + "parallel=1 failed=0 ash birch cedar", labOf + "parallel=2 failed=1 ash birch cedar",
		labOf + "parallel=3 failed=34% ash birch cedar"},
		budget: budget{edits: 1, fails: 2, retries: 1}},
	{name: "policies are changed", ships: []int64{1, 2, 3}, versions: []string{
		lab + prod, "stage lab queue=latest hold chain=host-deployed; group all ash" + prod,
		"order strict; stage lab queue=false chain=host-deployed; group all ash" + prod},
		budget: budget{edits: 1, fails: 1}},
	{name: "a batch is made or removed", ships: []int64{1, 2, 3}, versions: []string{lab + prod, lab + prod + "; batch live lab prod"},
		budget: budget{edits: 2, fails: 1, retries: 1}},
	{name: "a pinned pipeline is edited", ships: []int64{1, 2, 3}, versions: []string{
		"pin; stage lab queue=latest chain=host-deployed; group all ash", labOf + "birch ash",
		"pin; stage lab chain=host-warmed,host-deployed; group all ash"},
		budget: budget{edits: 2, fails: 1}},

	{name: "waves that bake", ships: []int64{1, 2}, versions: []string{labOf + "parallel=2 waves=1,2 bake=1m ash birch cedar"},
		budget: budget{fails: 1, ends: 1, retries: 1}},
	{name: "waves with tolerated failures", ships: []int64{1, 2}, race: true,
		versions: []string{labOf + "parallel=1 failed=1 waves=1,2 ash birch cedar"},
		budget:   budget{fails: 2, retries: 1}},
	{name: "a step that runs once", ships: []int64{1, 2}, race: true,
		versions: []string{
			"stage lab chain=host-migrated,host-deployed once=host-migrated; group web parallel=1 failed=1 ash birch; group jobs elm"},
		budget: budget{fails: 1, retries: 1, skips: 1}},
	{name: "a step is edited to run once", ships: []int64{1, 2}, versions: []string{
		"stage lab queue=false chain=host-migrated; group all parallel=2 ash birch",
		"stage lab queue=false chain=host-migrated once=host-migrated; group all parallel=2 birch ash"},
		budget: budget{edits: 1, fails: 1, ends: 1, retries: 1}},
	{name: "gates", ships: []int64{1, 2}, versions: []string{"stage lab before=x behind=y bake=1m chain=host-deployed; group all ash" + prod},
		budget: budget{fails: 1, ends: 1, retries: 1, cancels: 1}},
	{name: "a stage of gates under hold", ships: []int64{1, 2}, race: true, versions: []string{
		lab + "; stage check after lab gate hold before=x,y bake=1m" + "; stage prod after check chain=host-deployed; group all ash"},
		budget: budget{fails: 1, ends: 1, retries: 1}},
	{name: "an environment", ships: []int64{1, 2, 3}, race: true, versions: []string{"stage lab environment=eu before=x behind=y bake=1m"},
		budget: budget{fails: 1, ends: 1, retries: 1, cancels: 1}},
	{name: "environments in a line, strict order", ships: []int64{1, 2}, versions: []string{
		"order strict; " + lab + "; stage beta after lab environment=eu hold; stage live after beta environment=eu,us"},
		budget: budget{fails: 1, ends: 1, retries: 1, holds: 1}},
	{name: "an environment is edited", ships: []int64{1, 2}, versions: []string{
		"stage lab environment=eu; stage live after lab environment=us", "stage lab environment=eu,us; stage live after lab environment=us",
		"stage live environment=us"},
		budget: budget{edits: 2, fails: 1, retries: 1}},
	{name: "freezes", ships: []int64{1, 2}, versions: []string{labOf + "parallel=1 ash birch" + prodOf + "ash"},
		budget: budget{fails: 1, retries: 1, freezes: 2, clocks: 2}},
	{name: "windows", ships: []int64{1, 2}, race: true, versions: []string{
		"stage lab window=Allow,0_20_*_*_*,4h,UTC chain=host-deployed; group all parallel=1 ash birch; " +
			"stage prod after lab window=Deny,0_20_*_*_*,4h,UTC chain=host-deployed; group all cedar"},
		budget: budget{fails: 1, retries: 1, clocks: 4}},
	{name: "approvals", long: true, ships: []int64{1, 2, 3},
		versions: []string{lab + "; stage prod after lab approval=1 self chain=host-deployed; group all parallel=1 birch cedar"},
		budget:   budget{fails: 1, retries: 1, opinions: 3}},
	{name: "approvals and queue latest", ships: []int64{1, 2, 3}, versions: []string{
		lab + "; stage prod after lab queue=latest approval=2 self chain=host-deployed; group all birch"},
		budget: budget{opinions: 5}},
	{name: "approvals and strict order", ships: []int64{1, 2}, race: true, versions: []string{
		"order strict; " + lab + "; stage prod after lab approval=1 chain=host-deployed; group all birch"},
		budget: budget{fails: 1, retries: 1, holds: 1, opinions: 2}},
	{name: "approvals are edited", ships: []int64{1, 2}, versions: []string{
		"stage lab approval=1 chain=host-deployed; group all ash", "stage lab approval=1,bob self chain=host-deployed; group all ash",
		"stage lab approval=2 self chain=host-deployed; group all ash"},
		budget: budget{edits: 2, opinions: 3}},
}
