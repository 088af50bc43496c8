"""An encoder and a decoder of GRUs with additive attention and teacher forcing."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, SOS, VOCAB = 0, 1, 9


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        scores = scores.masked_fill(mask.unsqueeze(1), float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class Seq2Seq(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, hidden_size, padding_idx=PAD)
        self.encoder = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.attention = BahdanauAttention(hidden_size)
        self.decoder = nn.GRUCell(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, VOCAB)

    def forward(self, source, target):
        encoder_outputs, hidden = self.encoder(self.embedding(source))
        hidden = hidden[0]
        decoder_input = torch.empty(source.size(0), 1, dtype=torch.long).fill_(SOS)
        decoder_outputs = []
        for i in range(target.size(1)):
            embedded = self.embedding(decoder_input)
            context, _ = self.attention(hidden.unsqueeze(1), encoder_outputs, source == PAD)
            hidden = self.decoder(torch.cat((embedded, context), dim=2).squeeze(1), hidden)
            decoder_outputs.append(self.out(hidden))
            decoder_input = target[:, i].unsqueeze(1)
        return F.log_softmax(torch.stack(decoder_outputs, dim=1), dim=-1)


def model():
    return Seq2Seq(6)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def batches(rng):
    for _ in range(4):
        source = rng.integers(2, VOCAB, (3, 4))
        source[1, 3:], source[2, 2:] = PAD, PAD
        yield source, source[:, ::-1].copy()


def step(model, optimizer, source, target):
    optimizer.zero_grad()
    outputs = model(source, target)
    criterion = nn.NLLLoss(ignore_index=PAD)
    loss = criterion(outputs.view(-1, outputs.size(-1)), target.view(-1))
    loss.backward()
    optimizer.step()
    return loss.detach()
