/**
 * The tables that are read and written through kysely by name; columns are described in sql/migrations.
 *
 * The types are what pg returns and accepts, so a bigint is text.
 */
import type { ColumnType, Generated } from 'kysely'

type Timestamp = ColumnType<Date, Date | string | undefined, Date | string>
/** bigint columns come as text from pg. */
type BigInt_ = ColumnType<string, number | string | undefined, number | string>

export interface Warehouse {
  'intake.teams': {
    team_id: Generated<number>
    name: string
    environment: string | null
    timezone: Generated<string>
  }
  'intake_raw.records': {
    team_id: number
    stream: string
    id: string
    version: Timestamp
    observed_at: Timestamp
    updated_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
    deleted: boolean
    hash: Buffer
    origin: string
    payload: unknown
    as_it_came: string | null
    problems: ColumnType<unknown, string | null | undefined, string | null>
  }
  'intake_raw.export_files': {
    team_id: number
    export_id: string
    is_loaded: boolean
    hash: Buffer
    bytes: BigInt_
    is_json_string: boolean
    api_version: string
    timezone: string
    observed_at: Timestamp
    origin: string
    problems: ColumnType<unknown, string | null, string | null>
  }
  'intake_ops.missed_once': {
    team_id: number
    stream: string
    id: string
    run_id: BigInt_
    missed_at: ColumnType<Date, Date | undefined, Date>
  }
  'intake_raw.inbox': {
    team_id: number
    event_id: string
    body_hash: Buffer
    /** A day in UTC, which pg returns as midnight in the local zone: select it as text. */
    received_on: ColumnType<Date, string, string>
    received_at: Timestamp
    seq: ColumnType<string, undefined, never>
    event_type: string | null
    source: string | null
    record_id: string | null
    body: Buffer
    status: ColumnType<'pending' | 'done' | 'dead', 'pending' | 'done' | 'dead' | undefined>
    attempts: ColumnType<number, number | undefined, number>
    due_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
    settled_at: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
  }
  'intake_raw.set_aside': { dead_letter_id: BigInt_; body: Buffer }
  'intake_ops.runs': {
    run_id: Generated<string>
    kind: string
    status: ColumnType<string, string | undefined, string>
    options: ColumnType<unknown, string | undefined, string>
    started_at: Timestamp
    finished_at: ColumnType<Date | null, Date | null | undefined, Date | null>
    error: string | null
    canceled_by: ColumnType<string | null, string | undefined, string | null>
  }
  'intake_ops.run_streams': {
    run_id: BigInt_
    team_id: number
    stream: string
    status: string
    requests: BigInt_
    throttled: BigInt_
    fetched: BigInt_
    changed: BigInt_
    unchanged: BigInt_
    deleted: BigInt_
    erased: BigInt_
    dead_letters: BigInt_
    problems: BigInt_
    seconds: ColumnType<string, number, number>
    note: string | null
  }
  'intake_ops.checkpoints': {
    team_id: number
    stream: string
    slice: string
    epoch: BigInt_
    cursor: ColumnType<unknown, string | null, string | null>
    run_id: BigInt_ | null
    updated_at: Timestamp
  }
  'intake_ops.scans': {
    team_id: number
    stream: string
  }
  'intake_ops.dead_letters': {
    id: Generated<string>
    team_id: number
    stream: string
    record_id: string | null
    fingerprint: string
    origin: string
    reason: string
    status: ColumnType<string, string | undefined, string>
    seen: BigInt_
    created_at: Timestamp
    last_seen_at: Timestamp
    last_run_id: BigInt_ | null
    settled_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  }
  'intake_ops.problems': {
    team_id: number
    stream: string
    path: string
    reason: string
    first_seen: Timestamp
    last_seen: Timestamp
    count: BigInt_
  }
  'intake_ops.refetches': {
    team_id: number
    stream: string
    id: string
    reason: string
    origin: string
    since: ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
    asked: BigInt_
    attempts: ColumnType<number, number | undefined, number>
    failures: ColumnType<number, number | undefined, number>
    requested_at: Timestamp
    due_at: Timestamp
  }
  'intake_ops.drift': {
    team_id: number
    stream: string
    path: string
    type: string
    first_seen: Timestamp
    last_seen: Timestamp
    count: BigInt_
  }
  'intake_ops.webhook_secrets': {
    team_id: number
    config_id: string
    secret: Buffer
    created_at: Timestamp
    retired_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  }
}
