/** A Postgres for the simulation, with a migrated database for each lane. Leaves nothing behind. */
import pg from 'pg'
import { migrate } from '../../src/analytics/migrate.ts'
import { openTestServer } from '../support/server.ts'
import { type Lane, openLane } from './lane.ts'

export interface Stage extends AsyncDisposable {
  lane(): Promise<Lane>
}

const RealClient = pg.Client

export async function openStage(): Promise<Stage> {
  const server = await openTestServer()
  const prefix = `intake_simulation_${process.pid}`
  const template = `${prefix}_template`
  let lanes = 0
  await admin(`create database ${template} encoding 'UTF8' template template0`)
  await migrate(urlOf(template))

  async function admin(text: string): Promise<void> {
    const client = new RealClient({ connectionString: server.url })
    await client.connect()
    await client.query(text).finally(() => client.end())
  }

  function urlOf(name: string): string {
    const url = new URL(server.url)
    url.pathname = `/${name}`
    return url.href
  }

  return {
    async lane() {
      lanes += 1
      const name = `${prefix}_${lanes}`
      await admin(`create database ${name} template ${template}`)
      const lane = await openLane(urlOf(name))
      return {
        ...lane,
        async [Symbol.asyncDispose]() {
          await lane[Symbol.asyncDispose]()
          await admin(`drop database if exists ${name} with (force)`)
        },
      }
    },
    async [Symbol.asyncDispose]() {
      await admin(`drop database if exists ${template} with (force)`)
      await server.close()
    },
  }
}
