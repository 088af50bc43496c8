"""Tags by a conditional random field over a bidirectional LSTM: masks, Viterbi decoding."""
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.start = nn.Parameter(torch.empty(num_tags))
        self.end = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        for p in self.parameters():
            nn.init.uniform_(p, -0.1, 0.1)

    def forward(self, emissions, tags, mask):
        emissions, tags = emissions.transpose(0, 1), tags.transpose(0, 1)
        mask = mask.transpose(0, 1).byte()
        llh = self.score(emissions, tags, mask) - self.normalizer(emissions, mask)
        return llh.sum() / mask.type_as(emissions).sum()

    def score(self, emissions, tags, mask):
        seq_length, batch_size = tags.shape
        mask = mask.type_as(emissions)
        score = self.start[tags[0]]
        score += emissions[0, torch.arange(batch_size), tags[0]]
        for i in range(1, seq_length):
            score += self.transitions[tags[i - 1], tags[i]] * mask[i]
            score += emissions[i, torch.arange(batch_size), tags[i]] * mask[i]
        seq_ends = mask.long().sum(dim=0) - 1
        score += self.end[tags[seq_ends, torch.arange(batch_size)]]
        return score

    def normalizer(self, emissions, mask):
        score = self.start + emissions[0]
        for i in range(1, emissions.size(0)):
            next_score = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            next_score = torch.logsumexp(next_score, dim=1)
            score = torch.where(mask[i].unsqueeze(1).bool(), next_score, score)
        score += self.end
        return torch.logsumexp(score, dim=1)

    @torch.no_grad()
    def decode(self, emissions, mask):
        emissions, mask = emissions.transpose(0, 1), mask.transpose(0, 1)
        score = self.start + emissions[0]
        history = []
        for i in range(1, mask.shape[0]):
            next_score = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            next_score, indices = next_score.max(dim=1)
            score = torch.where(mask[i].unsqueeze(1).bool(), next_score, score)
            history.append(indices)
        score += self.end
        seq_ends = mask.long().sum(dim=0) - 1
        best_tags_list = []
        for idx in range(mask.shape[1]):
            _, best_last_tag = score[idx].max(dim=0)
            best_tags = [best_last_tag.item()]
            for hist in reversed(history[:seq_ends[idx]]):
                best_last_tag = hist[idx][best_tags[-1]]
                best_tags.append(best_last_tag.item())
            best_tags.reverse()
            best_tags_list.append(best_tags)
        return best_tags_list


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(8, 5)
        self.crf = CRF(5)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths.cpu(), batch_first=True,
                                      enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return self.fc(out)


def model():
    return Tagger()


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)


def batches(rng):
    found = []
    for _ in range(3):
        lengths = np.array([4, 6, 3])
        words = rng.integers(1, 20, (3, 6)) * (np.arange(6) < lengths[:, None])
        found.append((words, lengths, rng.integers(0, 5, (3, 6))))
    return found


def step(model, optimizer, words, lengths, tags):
    model.zero_grad()
    emissions = model(words, lengths)
    mask = torch.ne(words, 0)
    loss = -model.crf(emissions, tags, mask)
    loss.backward()
    optimizer.step()
    found = [tag for tags in model.crf.decode(emissions, mask) for tag in tags]
    return loss.detach(), torch.tensor(found)
