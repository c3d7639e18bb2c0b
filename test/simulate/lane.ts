/**
 * A database in which seeds run one after the other, each as a team of its own, so that no reset is needed.
 *
 * Invariant: no seed sees what another seed left.
 */
import pg from 'pg'
import { type Backends, openBackends, setClock, stopAutovacuum } from './backends.ts'
import { COPY } from './follower.ts'
import { SLICE_LAWS } from './judge-slices.ts'

export interface Lane extends AsyncDisposable {
  readonly backends: Backends
  /** A new, unknown team. */
  newTeam(): Promise<Team>
  /** Records of the team that are to be fetched by their id, as `stream id`. */
  asked(team: Team): Promise<ReadonlySet<string>>
  /** For the checker; it is not scheduled. */
  query<Row extends object>(text: string, values: unknown[]): Promise<Row[]>
}

export interface Team {
  readonly name: string
  readonly teamId: number
}

const RealClient = pg.Client

/** `url`: a migrated database that nobody else uses. */
export async function openLane(url: string): Promise<Lane> {
  const judge = new RealClient({
    connectionString: url,
    options: '-c timezone=UTC',
    application_name: 'simulation judge',
  })
  await judge.connect()
  await setClock(judge)
  await stopAutovacuum(judge)
  await judge.query(COPY)
  await judge.query(SLICE_LAWS)
  const backends = openBackends(url)
  let teams = 0
  return {
    backends,
    async newTeam() {
      teams += 1
      const name = `seed ${teams}`
      const { rows } = await judge.query<{ team_id: number }>(
        'insert into intake.teams (name) values ($1) returning team_id',
        [name],
      )
      return { name, teamId: rows[0]!.team_id }
    },
    async asked({ teamId }) {
      const { rows } = await judge.query<{ key: string }>(
        `select stream || ' ' || id as key from intake_ops.refetches where team_id = $1`,
        [teamId],
      )
      return new Set(rows.map(({ key }) => key))
    },
    query: async <Row extends object>(text: string, values: unknown[]) =>
      (await judge.query<Row & pg.QueryResultRow>(text, values)).rows,
    async [Symbol.asyncDispose]() {
      await backends.close()
      await judge.end()
    },
  }
}
