// The pages in the order of the navigation. Each has `load` (the data), `render` (its elements) and, for a canvas,
// `mount`. `live`: it is asked again when the job has changed; "overview": the stream itself brings its data.

import { explore } from "./explore.js";
import { generations } from "./generations.js";
import { keys } from "./keys.js";
import { milestones } from "./milestones.js";
import { overview } from "./overview.js";
import { recovery } from "./recovery.js";
import { regions } from "./regions.js";
import { rejected } from "./rejected.js";
import { shards } from "./shards.js";

export const PAGES = [overview, milestones, shards, keys, generations, regions, recovery, explore, rejected];
