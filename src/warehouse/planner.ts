/**
 * Planner settings of sessions: the one place that has them, each with its reason.
 *
 * Statements look up rows by key, and the plans of most are right without any setting, with and
 * without statistics (test/load/merge/plans.long.test.ts). The settings are for what a statement cannot say.
 */

/** Compiling a plan takes longer than our statements run. */
const NO_JIT = 'jit=off'

/**
 * Loading and draining: a few thousand keys of tables of any size. A prepared statement keeps the plan that it got while
 * a table had one page, where reading the page is cheaper than the index. The table may grow by a hundred thousand rows
 * before autovacuum counts it again, and each lookup would read it all.
 */
const BY_KEY = ['enable_seqscan=off', NO_JIT]

export const PLANNER = {
  load: BY_KEY,
  /** Events are taken in the order of an index, from a partition that may have no statistics yet. */
  drain: [...BY_KEY, 'enable_bitmapscan=off'],
  /** The statement that stores events joins nothing but lookups, and is never worth planning again. */
  inbox: [...BY_KEY, 'plan_cache_mode=force_generic_plan', 'enable_hashjoin=off', 'enable_mergejoin=off'],
  /**
   * Comparing all records with a temporary table of all seen ids or all expected rows, once a run. A temporary table has
   * no statistics, and a plan that looks up its rows one by one would make a scan quadratic.
   */
  compare: ['enable_nestloop=off', NO_JIT],
} as const satisfies Readonly<Record<string, readonly string[]>>

/** In a transaction of a `compare` session: a portion of keys is looked up. Until the transaction ends. */
export const LOOK_UP_IN_TRANSACTION = 'set local enable_nestloop = on; set local enable_seqscan = off'

/** As `LOOK_UP_IN_TRANSACTION`, where small tables are read as a whole too. */
export const NESTED_LOOPS_IN_TRANSACTION = 'set local enable_nestloop = on'

/**
 * In a transaction that deletes by ranges of pages, which only a TID range scan reads alone: an index scan would read
 * all remaining rows of a team for each range. Until the transaction ends.
 */
export const TID_SCANS_IN_TRANSACTION = `select set_config(setting, 'off', true)
  from unnest(array['enable_indexscan', 'enable_bitmapscan', 'enable_seqscan']) as setting`
