/** Law 10, byte by byte, in the other direction than twins.test.ts: actions for the second of two teams with the same ids. */
import { afterAll, beforeAll, describe } from 'vitest'
import { openTwins, type Twins, troubleTwins } from '../support/twins.ts'
import { changesApart } from './changes-apart.ts'

let twins: Twins

beforeAll(async () => {
  twins = await openTwins()
  await troubleTwins(twins)
})

afterAll(async () => {
  await twins[Symbol.asyncDispose]()
})

describe('an action for south changes nothing of the other:', () => {
  changesApart(() => twins, 'south')
})
