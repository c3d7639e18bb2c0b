/** Attacks on the database by logins that may only read, or have nothing to do with it. Each returns what succeeded. */
import pg from 'pg'

type Attack = (context: Context) => Promise<readonly string[]>

export interface Context {
  readonly url: string
  /** Runs while an attacker has whatever it could take; throws where work is stopped. */
  readonly work: () => Promise<void>
}

async function connected<Result>(url: string, use: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

const urlOf = (url: string, login: string) =>
  Object.assign(new URL(url), { username: login, password: 'p' }).href

async function withLogin<Result>(
  url: string,
  roles: string,
  use: (own: string) => Promise<Result>,
): Promise<Result> {
  const name = `attacker_${Math.random().toString(36).slice(2, 10)}`
  await connected(url, (owner) => owner.query(`create role ${name} login password 'p' ${roles}`))
  try {
    return await use(urlOf(url, name))
  } finally {
    await connected(url, (owner) => owner.query(`drop role ${name}`))
  }
}

/** Every key of an advisory lock that intake-sync ever had fixed, and that of the migrator's library. */
const KEYS = [
  ...[
    '7204313, 0',
    "7204314, hashtext('alerts')",
    '7204315, 1',
    '7204316, 1',
    "7204311, hashtext('1/patients')",
  ],
  ...['7204314001', '7204310001', '7204310002', '3853314791062309107'],
]

const locks: Attack = ({ url, work }) =>
  withLogin(url, 'in role intake_analyst', (own) =>
    connected(own, async (analyst) => {
      for (const key of KEYS) await analyst.query(`select pg_advisory_lock(${key})`)
      return await work().then(
        () => [],
        (error: Error) => [`work stopped: ${error.message}`],
      )
    }),
  )

const stranger: Attack = ({ url }) =>
  withLogin(url, '', (own) =>
    connected(own, async () => ['a login without a role connected']).catch(() => []),
  )

/** What a reader of `intake_analytics` may not do. */
const FORBIDDEN = [
  ...[
    'intake.patients',
    'intake.responses',
    'intake_raw.records',
    'intake_raw.inbox',
    'intake_ops.access',
  ].map((table) => `select from ${table}`),
  ...['analytics_key', 'erasure_key', 'lock_secret', 'receipt_key', 'webhook_secrets'].map(
    (table) => `select from intake_ops.${table}`,
  ),
  "select intake_ops.lock_key(7204311, '1/patients')",
  "select intake_ops.take_lock(7204315, '1', false)",
  'select intake_ops.hold_erasures(1::smallint)',
  "select intake_raw.add_inbox_day('2030-01-01', 1)",
  "select intake_ops.hmac_pad('\\x00', 54)",
  'set role intake_loader',
  'create table intake_analytics.mine (id int)',
  'create function intake_analytics.mine() returns int language sql as $$ select 1 $$',
  'create temporary table mine (id int)',
  'alter view intake_analytics.patients set (security_invoker = true)',
  'drop view intake_analytics.patients',
  'insert into intake_analytics.patients default values',
  'begin; lock table intake.patients in access exclusive mode',
  'truncate intake_raw.inbox',
  "select pg_read_file('/etc/passwd')",
  "copy intake_analytics.patients to program 'cat'",
  'select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user',
  'create extension dblink',
  "alter system set log_statement = 'all'",
] as const

const reader: Attack = ({ url }) =>
  withLogin(url, 'in role intake_analyst', (own) =>
    connected(own, async (analyst) => {
      const done: string[] = []
      for (const statement of FORBIDDEN) {
        await analyst.query(statement).then(
          () => done.push(statement),
          () => {},
        )
        await analyst.query('rollback')
      }
      return done
    }),
  )

const heir: Attack = async ({ url }) => {
  const name = `attacker_${Math.random().toString(36).slice(2, 10)}`
  return await connected(url, async (owner) => {
    // Of one team alone, every reader sees all.
    await owner.query(`insert into intake.teams (name) values ('another') on conflict do nothing`)
    await owner.query(`create role ${name} login password 'p' in role intake_analyst`)
    await owner.query(`insert into intake_ops.access (login, team_id) select $1, team_id from intake.teams`, [
      name,
    ])
    await owner.query(`drop role ${name}`)
    await owner.query(`create role ${name} login password 'p' in role intake_analyst`)
    const { rows } = await owner.query<{ teams: number[] }>('select intake_ops.teams_of($1) as teams', [name])
    await owner.query('delete from intake_ops.access where login = $1', [name])
    await owner.query(`drop role ${name}`)
    return rows[0]!.teams.length === 0 ? [] : [`inherited teams ${rows[0]!.teams.join(', ')}`]
  })
}

export const BYSTANDERS: Readonly<Record<string, Attack>> = {
  'an analyst takes every known lock': locks,
  'a login without a role connects': stranger,
  'an analyst runs what only others may': reader,
  'a recreated login reads as before': heir,
}
